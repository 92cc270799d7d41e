import { asText, type Json } from '../base/json';
import { runClientTool, toolsOf, type ClientTools, type PageDoor } from './clienttools';
import { functionCallOf, type FunctionCall } from './reduce';
import type { CallState } from './state';

/**
 * The model's calls to this page's tools. The arguments come with the model's call, the permission to
 * run with the server's word; with an approval in between, the second comes long after the first.
 */
export class ToolRuns {
  /** By the id of the call; null once it was begun. */
  #calls = new Map<string, FunctionCall | null>();
  /** Those that have no answer yet, by the id of the call. */
  #running = new Map<string, AbortController>();

  #tools: ClientTools;

  constructor(
    private readonly page: PageDoor,
    private readonly send: (event: object) => void,
  ) {
    this.#tools = toolsOf(page);
  }

  /** The page's tools as a session declares them, with those that not every call has. */
  declared(more: ClientTools = {}): object[] {
    this.#tools = { ...toolsOf(this.page), ...more };
    return Object.entries(this.#tools).map(([name, { description, parameters }]) => ({ type: 'function', name, description, parameters }));
  }

  take(event: Json, { tools }: CallState): void {
    const call = functionCallOf(event);
    const id = call?.callId ?? asText(event.tool_call_id);
    if (call && Object.hasOwn(this.#tools, call.name) && !this.#calls.has(id)) this.#calls.set(id, call);
    const known = tools.find((tool) => tool.id === id);
    if (known && known.state !== 'running') this.#running.get(id)?.abort(); // it was stopped, or took too long
    const waiting = this.#calls.get(id);
    if (!waiting || known?.executor !== 'client' || known.state !== 'running') return;
    this.#calls.set(id, null);
    void this.#run(id, waiting);
  }

  /** Nobody waits for an answer any more. */
  close(): void {
    this.#running.forEach((run) => run.abort());
  }

  async #run(id: string, { name, args }: FunctionCall): Promise<void> {
    const tool = this.#tools[name];
    const run = new AbortController();
    this.#running.set(id, run);
    const output = tool ? await runClientTool(tool, args, run.signal) : `Error: this page no longer has the tool ${name}.`;
    this.#running.delete(id);
    if (!run.signal.aborted) this.send({ type: 'conversation.item.create', item: { type: 'function_call_output', call_id: id, output } });
  }
}
