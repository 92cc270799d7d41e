import { asObject, parseJson } from '../base/json';

// Tools that this page runs itself; the model calls them like any other.

/** What the tools may do with the page. */
export interface PageDoor {
  setTheme: (theme: 'light' | 'dark') => void;
}

export interface ClientTool {
  description: string;
  parameters: object;
  /** Returns its answer. gone is signalled when nobody waits for that any more. */
  run: (args: unknown, gone: AbortSignal) => string | Promise<string>;
}

/** By name. */
export type ClientTools = Record<string, ClientTool>;

/** The tools that every call has. */
export function toolsOf(page: PageDoor): ClientTools {
  return {
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
        page.setTheme(wanted);
        return JSON.stringify({ theme: wanted, applied: true });
      },
    },
  };
}

/** Runs a tool and returns its answer. */
export async function runClientTool(tool: ClientTool, args: string, gone: AbortSignal): Promise<string> {
  const parsed = parseJson(args || '{}');
  if (parsed === undefined) return 'Error: the arguments are not valid JSON.';
  try {
    return await tool.run(parsed, gone);
  } catch (thrown) {
    return `Error: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
  }
}
