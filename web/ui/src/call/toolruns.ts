import { asText, type Json } from '../base/json';
import type { CodeSettings } from '../code/settings';
import { isClientTool, runClientTool, type PageDoor } from './clienttools';
import { functionCallOf, type CallState, type FunctionCall } from './state';

/**
 * The model's calls of this page's tools. The arguments come with the model's call, the leave to run
 * with the server's word; with an approval in between, the second comes long after the first.
 */
export class ToolRuns {
  #runs = new Map<string, { call: FunctionCall; abort?: AbortController }>();

  constructor(
    private readonly code: CodeSettings,
    private readonly page: PageDoor,
    private readonly send: (event: object) => void,
  ) {}

  take(event: Json, { tools }: CallState): void {
    const call = functionCallOf(event);
    if (call && isClientTool(call.name, this.code) && !this.#runs.has(call.callId)) this.#runs.set(call.callId, { call });
    const id = call?.callId ?? asText(event.tool_call_id);
    const run = this.#runs.get(id);
    const known = tools.find((tool) => tool.id === id);
    if (!run || known?.executor !== 'client') return;
    if (known.state !== 'running') run.abort?.abort();
    else if (!run.abort) void this.#answer(run.call, (run.abort = new AbortController()));
  }

  close(): void {
    for (const { abort } of this.#runs.values()) abort?.abort();
    this.#runs.clear();
  }

  async #answer({ callId, name, args }: FunctionCall, abort: AbortController): Promise<void> {
    const output = await runClientTool(name, args, this.code, abort.signal, this.page);
    if (abort.signal.aborted) return;
    this.send({ type: 'conversation.item.create', item: { type: 'function_call_output', call_id: callId, output } });
  }
}
