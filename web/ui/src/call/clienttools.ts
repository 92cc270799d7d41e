import { asObject, parseJson } from '../base/json';

// Tools that this page runs itself; the model calls them like any other.

/** What the tools may do with the page. */
export interface PageDoor {
  setTheme: (theme: 'light' | 'dark') => void;
}

interface ClientTool {
  description: string;
  parameters: object;
  run: (args: unknown, page: PageDoor) => string;
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
    run: (args, page) => {
      const wanted = asObject(args).theme;
      if (wanted !== 'light' && wanted !== 'dark') return 'Error: theme must be "light" or "dark".';
      page.setTheme(wanted);
      return JSON.stringify({ theme: wanted, applied: true });
    },
  },
};

/** The page's tools as a session declares them. */
export function declared(): object[] {
  return Object.entries(tools).map(([name, { description, parameters }]) => ({ type: 'function', name, description, parameters }));
}

/** Whether a tool belongs to this page. */
export function isClientTool(name: string): boolean {
  return Object.hasOwn(tools, name);
}

/** Runs a tool of this page and returns its answer. */
export function runClientTool(name: string, args: string, page: PageDoor): string {
  const parsed = parseJson(args || '{}');
  if (parsed === undefined) return 'Error: the arguments are not valid JSON.';
  try {
    return tools[name]?.run(parsed, page) ?? `Error: this page has no tool ${name}.`;
  } catch (thrown) {
    return `Error: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
  }
}
