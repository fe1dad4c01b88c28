# SPDX-License-Identifier: Apache-2.0
# What each application of this directory does, as a Rack application.
require 'digest'
require 'json'
require 'rack'

FILES = Rack::Files.new(Dir.pwd)

# A first piece at once, and a last one when the file UNTIL exists.
class Pieces
  def initialize(file)
    @file = file
  end

  def each
    yield "first\n"
    sleep 0.01 until File.exist?(@file)
    yield "last\n"
  end
end

def json(value)
  [200, { 'Content-Type' => 'application/json' }, [JSON.generate(value)]]
end

def upload(request)
  part = request.form_data? ? request.POST['file'] : nil
  data = part ? part[:tempfile].read : request.body.read
  json(length: data.bytesize, sha256: Digest::SHA256.hexdigest(data))
end

def enter(request)
  response = Rack::Response.new
  response.set_cookie('session', value: 'a=b c', httponly: true)
  response.set_cookie('theme', 'dark')
  response.redirect("#{request.base_url}/cookies")
  response.finish
end

def environment(request)
  json(address: request.ip, scheme: request.scheme, host: request.host_with_port, url: request.url,
       for: request.get_header('HTTP_X_FORWARDED_FOR'), proto: request.get_header('HTTP_X_FORWARDED_PROTO'))
end

def respond(env)
  request = Rack::Request.new(env)
  case request.path
  when '/healthz', '/hello' then [200, { 'Content-Type' => 'text/plain' }, ["hello\n"]]
  when '/form' then json(request.POST)
  when '/json' then json(JSON.parse(request.body.read))
  when '/enter' then enter(request)
  when '/leave' then [302, { 'Location' => '/hello' }, []]
  when '/cookies' then json(request.cookies)
  when '/upload' then upload(request)
  when '/stream' then [200, { 'Content-Type' => 'text/plain' }, Pieces.new(request.params['until'])]
  when '/file' then FILES.call(env.merge('PATH_INFO' => '/download.bin'))
  when '/environment' then environment(request)
  when '/broken' then raise 'made for a test'
  else [404, { 'Content-Type' => 'text/plain' }, ["nothing at #{request.path}\n"]]
  end
end

run(lambda do |env|
  status, headers, body = respond(env)
  [status, headers.merge('X-Pid' => Process.pid.to_s), body]
end)
