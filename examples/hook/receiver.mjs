// Receives what voicebridge posts to a hook, and prints what comes from it. Needs only Node.js:
//
//   HOOK_SECRET=whsec_… node examples/hook/receiver.mjs 9000
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const key = Buffer.from(process.env.HOOK_SECRET.replace("whsec_", ""), "base64");
const seen = new Set(); // in a database, if it must outlive this process: an event may come twice

function verified(headers, body) {
  const id = headers["webhook-id"], at = headers["webhook-timestamp"];
  if (Math.abs(Date.now() / 1000 - Number(at)) > 300) return false; // an old request, sent again by somebody
  const want = createHmac("sha256", key).update(`${id}.${at}.`).update(body).digest();
  return String(headers["webhook-signature"]).split(" ").some((one) => {
    const got = Buffer.from(one.replace("v1,", ""), "base64");
    return got.length === want.length && timingSafeEqual(got, want);
  });
}

createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  if (!verified(request.headers, body)) return response.writeHead(401).end();
  response.writeHead(204).end();
  if (seen.has(request.headers["webhook-id"])) return;
  seen.add(request.headers["webhook-id"]);
  const { type, data } = JSON.parse(body);
  console.log(type, JSON.stringify(data));
}).listen(Number(process.argv[2] ?? 9000), "127.0.0.1");
