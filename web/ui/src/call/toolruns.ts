import { asText, type Json } from '../base/json';
import { isClientTool, runClientTool, type PageDoor } from './clienttools';
import { functionCallOf, type FunctionCall } from './reduce';
import type { CallState } from './state';

/**
 * The model's calls to this page's tools. The arguments come with the model's call, the permission to
 * run with the server's word; with an approval in between, the second comes long after the first.
 */
export class ToolRuns {
  /** By the id of the call; null once it is answered. */
  #calls = new Map<string, FunctionCall | null>();

  constructor(
    private readonly page: PageDoor,
    private readonly send: (event: object) => void,
  ) {}

  take(event: Json, { tools }: CallState): void {
    const call = functionCallOf(event);
    const id = call?.callId ?? asText(event.tool_call_id);
    if (call && isClientTool(call.name) && !this.#calls.has(id)) this.#calls.set(id, call);
    const waiting = this.#calls.get(id);
    const known = tools.find((tool) => tool.id === id);
    if (!waiting || known?.executor !== 'client' || known.state !== 'running') return;
    this.#calls.set(id, null);
    const output = runClientTool(waiting.name, waiting.args, this.page);
    this.send({ type: 'conversation.item.create', item: { type: 'function_call_output', call_id: id, output } });
  }
}
