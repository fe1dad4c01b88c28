// SPDX-License-Identifier: Apache-2.0
// What each application of this directory does, in Express. docs/guide/applications.md has the file that listens.
const crypto = require("crypto");
const express = require("express");
const fs = require("fs");
const path = require("path");

const app = express();

app.use((request, response, next) => {
  response.set("X-Pid", String(process.pid));
  next();
});

app.get(["/healthz", "/hello"], (request, response) => response.type("text").send("hello\n"));
app.post("/form", express.urlencoded({ extended: false }), (request, response) => response.json(request.body));
app.post("/json", express.json(), (request, response) => response.json(request.body));

const base = (request) => `${request.protocol}://${request.get("host")}`;

app.get("/enter", (request, response) => {
  response.cookie("session", "a=b c", { httpOnly: true });
  response.cookie("theme", "dark");
  response.redirect(base(request) + "/cookies");
});

app.get("/leave", (request, response) => response.redirect("/hello"));

app.get("/cookies", (request, response) => {
  const pairs = (request.get("cookie") || "").split("; ").filter(Boolean).map((pair) => {
    const at = pair.indexOf("=");
    return [pair.slice(0, at), decodeURIComponent(pair.slice(at + 1))];
  });
  response.json(Object.fromEntries(pairs));
});

app.post("/upload", (request, response) => {
  const digest = crypto.createHash("sha256");
  let length = 0;
  request.on("data", (piece) => {
    digest.update(piece);
    length += piece.length;
  });
  request.on("end", () => response.json({ length, sha256: digest.digest("hex") }));
});

// A first piece at once, and a last one when the file `until` exists.
app.get("/stream", (request, response) => {
  response.type("text").write("first\n");
  const timer = setInterval(() => {
    if (fs.existsSync(request.query.until)) {
      clearInterval(timer);
      response.end("last\n");
    }
  }, 10);
});

app.get("/file", (request, response) => response.sendFile(path.resolve("download.bin")));

app.get("/environment", (request, response) =>
  response.json({
    address: request.ip,
    scheme: request.protocol,
    host: request.get("host"),
    url: base(request) + request.originalUrl,
    for: request.get("x-forwarded-for"),
    proto: request.get("x-forwarded-proto"),
  }));

app.get("/broken", () => {
  throw new Error("made for a test");
});

module.exports = app;
