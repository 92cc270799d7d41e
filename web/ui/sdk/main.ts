// OpenAI's own SDK for browsers as one script, for the end-to-end test in
// e2e: a client that was not written for this server.
export { OpenAIRealtimeWebRTC, RealtimeAgent, RealtimeSession, tool } from '@openai/agents-realtime';
