// SPDX-License-Identifier: Apache-2.0
// An OpenAI-compatible server over llama.cpp (node-llama-cpp), whose KV cache keeps the prompts of several conversations.
//
//   node server.mjs --model FILE --port PORT [--slots 8] [--parallel 4] [--context 2304] [--prefill-us 0] [--decode-us 0]
//
// Requests are queued first in, first out. Prefill serves one request at a time on one thread; up to --parallel requests are
// decoded in one batch. A slot is the cached prompt of one conversation. A prompt that shares a prefix with a slot which holds much
// else gets a copy of that prefix in the least recently used slot, as servers that share a prefix by blocks do.
//
// --prefill-us and --decode-us are the least time of a prefilled and of a generated token. The cache decides, really, how many tokens
// are evaluated; the pace makes their times those of a machine of its own, even if several servers share a core. The time by which the
// computation was late is counted (llmbench:overrun_seconds_total): times are valid only while it is a small part of the paced time.
import http from "node:http";
import fs from "node:fs";
import {parseArgs} from "node:util";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const {values: o} = parseArgs({options: {
    model: {type: "string"}, port: {type: "string"}, slots: {type: "string", default: "8"}, parallel: {type: "string", default: "4"},
    context: {type: "string", default: "2304"}, "prefill-us": {type: "string", default: "0"}, "decode-us": {type: "string", default: "0"}}});
const port = +o.port, slotCount = +o.slots, parallel = Math.min(+o.parallel, slotCount), context = +o.context;
const prefillMs = +o["prefill-us"] / 1000, decodeMs = +o["decode-us"] / 1000;
const MODEL_NAME = "llmbench-tiny";
// A prefix below this many tokens is not worth a copy; a slot that would lose at most LOSS of them, or LOSS_SHARE, is reused as it is.
const COPY_MIN = 32, LOSS = 96, LOSS_SHARE = 0.1;
const stateFile = `/dev/shm/llmbench-${process.pid}.state`;

const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: 1});
const model = await llama.loadModel({modelPath: o.model});
const ctx = await model.createContext({contextSize: context, sequences: slotCount, batchSize: 512, threads: 1});
const slots = Array.from({length: slotCount}, (_, id) => ({id, seq: ctx.getSequence(), busy: false, used: 0}));

const queue = [];
let running = 0, prefilling = false, clock = 0;
const totals = {requests: 0, prompt: 0, cached: 0, evaluated: 0, generated: 0, aborted: 0, copies: 0, evictions: 0, errors: 0,
    overrunMs: 0, pacedMs: 0};

const now = () => performance.now();
const until = (t) => new Promise((resolve) => { const d = t - now(); d > 0.3 ? setTimeout(resolve, d) : resolve(); });

function commonLength(a, b) {
    const n = Math.min(a.length, b.length);
    let i = 0;
    while (i < n && a[i] === b[i]) i++;
    return i;
}

async function cut(seq, length) {
    if (seq.nextTokenIndex > length) await seq.eraseContextTokenRanges([{start: length, end: seq.nextTokenIndex}]);
}

// Returns {slot, cached}: an idle slot whose state is the longest prefix of TOKENS in the cache. The last token is always evaluated.
async function place(tokens) {
    let best = null, shared = 0;
    for (const s of slots) {
        const n = Math.min(commonLength(s.seq.contextTokens, tokens), tokens.length - 1);
        if (n > shared || (n === shared && best && !s.busy && (best.busy || s.used < best.used))) { best = s; shared = n; }
    }
    const oldest = slots.filter((s) => !s.busy).sort((a, b) => a.used - b.used)[0];
    const lost = best ? best.seq.nextTokenIndex - shared : 0;
    if (best && !best.busy && (lost <= Math.max(LOSS, LOSS_SHARE * shared) || best === oldest)) {
        best.busy = true;
        await cut(best.seq, shared);
        return {slot: best, cached: shared};
    }
    oldest.busy = true;
    if (oldest.seq.nextTokenIndex > 0) totals.evictions++;
    if (best && shared >= COPY_MIN) {
        await best.seq.saveStateToFile(stateFile);
        await oldest.seq.loadStateFromFile(stateFile, {acceptRisk: true});
        totals.copies++;
    } else {
        shared = Math.min(commonLength(oldest.seq.contextTokens, tokens), tokens.length - 1);
    }
    await cut(oldest.seq, shared);
    return {slot: oldest, cached: shared};
}

// Waits until DUE, if there is a pace, and counts PACED_MS and the time by which DUE has passed.
async function pace(due, pacedMs) {
    if (pacedMs) { totals.overrunMs += Math.max(0, now() - due); totals.pacedMs += pacedMs; }
    await until(due);
}

function serveNext() {
    while (queue.length && queue[0].closed) { queue.shift(); totals.aborted++; }
    if (!queue.length || prefilling || running >= parallel) return;
    const r = queue.shift();
    prefilling = r.prefilling = true;
    running++;
    serve(r).catch((e) => { totals.errors++; console.error(e); r.fail(e); }).finally(() => {
        if (r.slot) { r.slot.busy = false; r.slot.used = ++clock; }
        if (r.prefilling) prefilling = false;
        running--;
        serveNext();
    });
}

async function serve(r) {
    const began = now();
    const {slot, cached} = await place(r.tokens);
    r.slot = slot;
    slot.used = ++clock;
    const evaluated = r.tokens.slice(cached);
    const generator = slot.seq.evaluate(evaluated, {temperature: 0, yieldEogToken: true});
    let token = (await generator.next()).value;
    const computedMs = now() - began, pacedMs = evaluated.length * prefillMs + decodeMs;
    let due = began + pacedMs;
    await pace(due, pacedMs);
    totals.requests++;
    totals.prompt += r.tokens.length;
    totals.cached += cached;
    totals.evaluated += evaluated.length;
    prefilling = r.prefilling = false;
    r.begin(cached, {queue_ms: began - r.arrived, prefill_ms: now() - began, computed_ms: computedMs});
    let count = 0;
    for (;;) {
        count++;
        totals.generated++;
        r.token(model.detokenize([token]));
        if (count === 1) serveNext();
        if (count >= r.max || r.closed || slot.seq.nextTokenIndex + 2 >= context) break;
        due = Math.max(due, now() - 50) + decodeMs;
        token = (await generator.next()).value;
        await pace(due, decodeMs);
    }
    await generator.return();
    r.end(count);
}

const textOf = (content) => typeof content === "string" ? content : (content || []).map((part) => part.text || "").join("");

function sendJson(res, status, object) {
    const body = JSON.stringify(object);
    res.writeHead(status, {"Content-Type": "application/json", "Content-Length": Buffer.byteLength(body)});
    res.end(body);
}

const sendError = (res, status, message) =>
    sendJson(res, status, {error: {message, type: status < 500 ? "invalid_request_error" : "server_error"}});

// Queues the request BODY of a chat, or of a completion, and responds to it, as a stream of events if it says so.
function complete(res, body, chat) {
    const prompt = chat ? body.messages.map((m) => `${m.role[0]}:${textOf(m.content)}\n`).join("") + "a:" : textOf(body.prompt);
    const tokens = [model.tokens.bos, ...model.tokenize(prompt, false)];
    const max = Math.max(1, body.max_completion_tokens ?? body.max_tokens ?? 16);
    if (tokens.length + max + 4 > context) return sendError(res, 400, "the prompt is too long");
    const common = {id: `cmpl-${port}-${++clock}`, created: Math.floor(Date.now() / 1000), model: MODEL_NAME};
    const kind = chat ? "chat.completion" : "text_completion";
    let out = "", cachedTokens = 0, timings;
    const sendEvent = (choice, why, more) => res.write("data: " + JSON.stringify({...common, object: chat ? kind + ".chunk" : kind,
        choices: [{index: 0, ...choice, finish_reason: why}], ...more}) + "\n\n");
    const r = {tokens, max, arrived: now(), closed: false, slot: null,
        begin(cached, times) {
            cachedTokens = cached;
            timings = {...times, worker: port};
            if (body.stream) res.writeHead(200, {"Content-Type": "text/event-stream", "Cache-Control": "no-store"});
        },
        token(text) {
            out += text;
            if (body.stream) sendEvent(chat ? {delta: {content: text}} : {text}, null);
        },
        end(count) {
            const why = count < max ? "stop" : "length";
            const usage = {prompt_tokens: tokens.length, completion_tokens: count, total_tokens: tokens.length + count,
                prompt_tokens_details: {cached_tokens: cachedTokens}};
            if (body.stream) {
                sendEvent(chat ? {delta: {}} : {text: ""}, why, {usage, timings});
                return res.end("data: [DONE]\n\n");
            }
            const choice = chat ? {message: {role: "assistant", content: out}} : {text: out};
            sendJson(res, 200, {...common, object: kind, usage, timings, choices: [{index: 0, ...choice, finish_reason: why}]});
        },
        fail(e) { if (res.headersSent) res.destroy(); else sendError(res, 500, String(e)); }};
    res.on("close", () => { r.closed = true; });
    queue.push(r);
    serveNext();
}

function metrics() {
    const cpu = process.cpuUsage(), used = slots.reduce((sum, s) => sum + s.seq.nextTokenIndex, 0);
    return [
        ["vllm:num_requests_running", "gauge", running], ["vllm:num_requests_waiting", "gauge", queue.length],
        ["vllm:kv_cache_usage_perc", "gauge", used / (context * slotCount)], ["vllm:prompt_tokens_total", "counter", totals.prompt],
        ["vllm:generation_tokens_total", "counter", totals.generated], ["vllm:prefix_cache_queries_total", "counter", totals.prompt],
        ["vllm:prefix_cache_hits_total", "counter", totals.cached], ["vllm:request_success_total", "counter", totals.requests],
        ["llamacpp:requests_processing", "gauge", running], ["llamacpp:requests_deferred", "gauge", queue.length],
        ["llamacpp:prompt_tokens_total", "counter", totals.evaluated], ["llamacpp:tokens_predicted_total", "counter", totals.generated],
        ["llmbench:copies_total", "counter", totals.copies], ["llmbench:evictions_total", "counter", totals.evictions],
        ["llmbench:aborted_total", "counter", totals.aborted], ["llmbench:errors_total", "counter", totals.errors],
        ["llmbench:overrun_seconds_total", "counter", totals.overrunMs / 1000],
        ["llmbench:paced_seconds_total", "counter", totals.pacedMs / 1000],
        ["process_cpu_seconds_total", "counter", (cpu.user + cpu.system) / 1e6],
    ].map(([name, type, value]) => `# TYPE ${name} ${type}\n${name}{model_name="${MODEL_NAME}"} ${value}\n`).join("");
}

// Empties the cache and sets all totals to 0. Only while no request is served.
async function reset(res) {
    if (running || queue.length) return sendError(res, 409, "requests are in progress");
    for (const s of slots) { s.used = 0; await s.seq.clearHistory(); }
    for (const name in totals) totals[name] = 0;
    sendJson(res, 200, {});
}

const GET = {
    "/health": (res) => sendJson(res, 200, {status: "ok"}),
    "/v1/models": (res) => sendJson(res, 200, {object: "list", data: [{id: MODEL_NAME, object: "model", created: 0, owned_by: "llmbench"}]}),
    "/slots": (res) => sendJson(res, 200, slots.map((s) => ({id: s.id, busy: s.busy, tokens: s.seq.nextTokenIndex, used: s.used}))),
    "/metrics": (res) => { res.setHeader("Content-Type", "text/plain; version=0.0.4"); res.end(metrics()); },
};
const POST = {
    "/reset_prefix_cache": (res) => reset(res),
    "/v1/completions": (res, body) => complete(res, body, false),
    "/v1/chat/completions": (res, body) => complete(res, body, true),
};

const server = http.createServer((req, res) => {
    const handle = (req.method === "POST" ? POST : GET)[req.url.split("?")[0]];
    if (!handle) return sendError(res, 404, "not found");
    const parts = [];
    req.on("data", (part) => parts.push(part));
    req.on("end", async () => {
        try { await handle(res, parts.length ? JSON.parse(Buffer.concat(parts).toString()) : {}); }
        catch (e) { sendError(res, 400, String(e)); }
    });
});
server.keepAliveTimeout = 600_000;
server.requestTimeout = 0;
server.listen(port, "127.0.0.1", 1024);
for (const s of ["SIGTERM", "SIGINT"]) process.on(s, () => { fs.rmSync(stateFile, {force: true}); process.exit(0); });
