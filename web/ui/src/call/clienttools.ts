import { asObject, parseJson } from '../base/json';
import { javaScript, python } from '../code/definitions';
import type { CodeSettings } from '../code/settings';

// Tools that this page runs itself; the model calls them like any other.

/** What the tools may do with the page. */
export interface PageDoor {
  setTheme: (theme: 'light' | 'dark') => void;
}

interface ClientTool {
  description: string;
  parameters: object;
  run: (args: unknown, settings: CodeSettings, signal: AbortSignal, page: PageDoor) => string | Promise<string>;
  /** Offered only when the server says so. */
  onRequest?: boolean;
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
    run: (args, _settings, _signal, page) => {
      const wanted = asObject(args).theme;
      if (wanted !== 'light' && wanted !== 'dark') return 'Error: theme must be "light" or "dark".';
      page.setTheme(wanted);
      return JSON.stringify({ theme: wanted, applied: true });
    },
  },
  'mini-javascript-execution': {
    ...javaScript,
    onRequest: true,
    run: async (args, { limits }, signal) => (await import('../code/tools')).runJavaScript(args, limits, signal),
  },
  'python-execution': {
    ...python,
    onRequest: true,
    run: async (args, { limits, pyodide }, signal) => (await import('../code/tools')).runPython(args, limits, signal, pyodide),
  },
};

function offered(settings: CodeSettings): [string, ClientTool][] {
  return Object.entries(tools).filter(([name, tool]) => !tool.onRequest || settings.tools.includes(name));
}

/** The page's tools as a session declares them. */
export function declared(settings: CodeSettings): object[] {
  return offered(settings).map(([name, { description, parameters }]) => ({ type: 'function', name, description, parameters }));
}

/** Whether a tool is one of this page. */
export function isClientTool(name: string, settings: CodeSettings): boolean {
  return offered(settings).some(([known]) => known === name);
}

/** Runs a tool of this page until signal ends it, and returns its answer. */
export async function runClientTool(name: string, args: string, settings: CodeSettings, signal: AbortSignal, page: PageDoor): Promise<string> {
  const tool = offered(settings).find(([known]) => known === name)?.[1];
  const parsed = parseJson(args || '{}');
  if (!tool) return `Error: this page has no tool ${name}.`;
  if (parsed === undefined) return 'Error: the arguments are not valid JSON.';
  try {
    return await tool.run(parsed, settings, signal, page);
  } catch (thrown) {
    return `Error: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
  }
}
