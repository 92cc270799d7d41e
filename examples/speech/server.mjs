// A recogniser and voices on this machine, behind the paths of OpenAI's API that voicebridge's `cascade` calls.
// English and robotic, but it needs neither a network nor a GPU, only Node.js and three packages of Debian:
//
//   apt-get install --no-install-recommends pocketsphinx pocketsphinx-en-us flite
//   node examples/speech/server.mjs 8000
//
// What follows the port goes to the recogniser, such as -lm FILE -dict FILE for a language model of your own.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";

const [port = "8000", ...options] = process.argv.slice(2);
const voices = execFileSync("flite", ["-lv"], { encoding: "utf8" }).replace(/^.*:/, "").trim().split(/\s+/);

class Refusal extends Error {
  constructor(message, param = null, status = 400) {
    super(message);
    Object.assign(this, { param, status });
  }
}

// start runs a line of shell: both programs open their input and output by name, which works with its pipes and not with
// Node's. It has a process group of its own, so that all of it can be stopped.
function start(line, ...args) {
  const child = spawn("sh", ["-c", line, "sh", ...args], { detached: true, stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.on("error", () => {}); // it may end before it has read everything
  child.over = once(child, "close");
  child.over.catch(() => {}); // said by outputOf
  return child;
}

// outputOf returns what a child makes of the input; once the client is gone, nobody wants it.
async function outputOf(child, input, gone) {
  const stop = () => process.kill(-child.pid, "SIGKILL");
  gone.addEventListener("abort", stop);
  try {
    gone.throwIfAborted();
    child.stdin.end(input);
    const output = Buffer.concat(await child.stdout.toArray());
    const [code] = await child.over;
    gone.throwIfAborted();
    if (code !== 0) throw new Error(`${child.spawnargs[2]}: exit status ${code}`);
    return output;
  } finally {
    gone.removeEventListener("abort", stop);
    if (child.exitCode === null && child.signalCode === null) stop();
  }
}

// A recogniser first reads its model and then waits for sound: one that was started before the request answers sooner.
const listen = () => start('cat | exec pocketsphinx_continuous -infile /dev/stdin -logfn /dev/null "$@"', ...options);
let next = listen();

async function transcribe(body, type, gone) {
  const form = await new Response(body, { headers: { "content-type": type } }).formData().catch(() => {
    throw new Refusal("A form (multipart/form-data) is expected.");
  });
  const file = form.get("file");
  if (!(file instanceof Blob)) throw new Refusal("A file is expected.", "file");
  const sound = samples(Buffer.from(await file.arrayBuffer()));
  const recogniser = next;
  next = listen();
  const lines = await outputOf(recogniser, sound, gone);
  return ["application/json", JSON.stringify({ text: lines.toString().trim().replace(/\s+/g, " ") })];
}

// samples returns the sound in a WAV file, which has to be as the recogniser's model wants it.
function samples(wav) {
  const name = (at) => wav.toString("latin1", at, at + 4);
  if (name(0) === "RIFF" && name(8) === "WAVE") {
    let fits = false;
    for (let at = 12, size; at + 8 <= wav.length; at += 8 + size + (size % 2)) {
      size = wav.readUInt32LE(at + 4);
      if (name(at) === "data" && fits) return wav.subarray(at + 8, at + 8 + size);
      // Format 1 (PCM), one channel, 16,000 Hz, 16 bits.
      if (name(at) === "fmt ") fits = wav.toString("hex", at + 8, at + 16) === "01000100803e0000" && wav[at + 22] === 16;
    }
  }
  throw new Refusal("A WAV file of 16 bits, 16 kHz, mono is expected.", "file");
}

async function speak(body, _, gone) {
  let asked = null;
  try {
    asked = JSON.parse(body);
  } catch {
    // as for null
  }
  const { input, voice, speed = 1 } = asked ?? {};
  if (typeof input !== "string" || !input.trim() || input.length > 4096) throw new Refusal("1 to 4096 characters are expected.", "input");
  if (!voices.includes(voice)) throw new Refusal(`The voices are ${voices.join(", ")}.`, "voice");
  if (!(speed >= 0.25 && speed <= 4)) throw new Refusal("0.25 to 4 is expected.", "speed");
  const line = 'flite -voice "$1" --setf duration_stretch="$2" -t "$3" -o /dev/stdout | cat';
  return ["audio/wav", await outputOf(start(line, voice, 1 / speed, input.replaceAll("\0", " ")), "", gone)];
}

const list = (value) => () => ["application/json", JSON.stringify(value)];
const routes = {
  "POST /v1/audio/transcriptions": transcribe,
  "POST /v1/audio/speech": speak,
  "GET /v1/models": list({ object: "list", data: ["pocketsphinx", "flite"].map((id) => ({ id, object: "model" })) }),
  "GET /v1/audio/voices": list({ voices: voices.map((id) => ({ id, name: id })) }),
};

async function answer(request, gone) {
  const route = routes[`${request.method} ${request.url}`];
  if (!route) throw new Refusal("There is no such path.", null, 404);
  const parts = [];
  let size = 0;
  for await (const part of request.iterator({ destroyOnReturn: false })) { // so that a refusal can be sent
    if ((size += part.length) > 25 << 20) throw new Refusal("The request is too large.", null, 413);
    parts.push(part);
  }
  return route(Buffer.concat(parts), request.headers["content-type"] ?? "", gone);
}

const server = createServer(async (request, response) => {
  const client = new AbortController();
  response.on("close", () => client.abort());
  try {
    const [type, body] = await answer(request, client.signal);
    response.writeHead(200, { "content-type": type }).end(body);
  } catch (error) {
    if (client.signal.aborted) return;
    const { message, param = null, status = 500 } = error;
    if (status === 500) console.error(error);
    const kind = status === 500 ? "server_error" : "invalid_request_error";
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ error: { message, type: kind, param, code: null } }));
  }
});
server.listen(Number(port), "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/v1`));
