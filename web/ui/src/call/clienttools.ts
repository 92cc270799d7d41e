import { asObject, parseJson } from '../base/json';
import { theme } from '../view/theme.svelte';

// Tools that this page runs itself; the model calls them like any other.

interface ClientTool {
  description: string;
  parameters: object;
  run: (args: unknown) => string;
}

const tools: Record<string, ClientTool> = {
  changeBrowserTheme: {
    description: "Switch the colours of the user's page between light and dark.",
    parameters: {
      type: 'object',
      properties: { theme: { type: 'string', enum: ['light', 'dark'] } },
      required: ['theme'],
      additionalProperties: false,
    },
    run: (args) => {
      const wanted = asObject(args).theme;
      if (wanted !== 'light' && wanted !== 'dark') return 'Error: theme must be "light" or "dark".';
      theme.set(wanted);
      return JSON.stringify({ theme: wanted, applied: true });
    },
  },
};

/** The event that declares the page's tools to the call. */
export function declaration(): object {
  const list = Object.entries(tools).map(([name, { description, parameters }]) => ({
    type: 'function',
    name,
    description,
    parameters,
  }));
  return { type: 'session.update', session: { type: 'realtime', tools: list } };
}

/** Runs a tool of this page and returns the answer; null when it is not ours. */
export function runClientTool(name: string, args: string): string | null {
  const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
  if (!tool) return null;
  const parsed = parseJson(args || '{}');
  return parsed === undefined ? 'Error: the arguments are not valid JSON.' : tool.run(parsed);
}
