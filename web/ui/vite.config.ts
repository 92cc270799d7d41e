import { svelte } from '@sveltejs/vite-plugin-svelte';
import ts from 'typescript';
import { defineConfig } from 'vitest/config';

/** Texts stand side by side, as both(English, German): a catalogue with ?en or ?de has one of each. */
const apart = {
  name: 'languages-apart',
  enforce: 'pre' as const,
  transform(code: string, id: string) {
    const tag = /\/words\/catalogue\/\w+\.ts\?(en|de)$/.exec(id)?.[1];
    if (!tag) return undefined;
    const take: ts.TransformerFactory<ts.SourceFile> = (context) => (file) => {
      const visit = (node: ts.Node): ts.Node =>
        ts.isCallExpression(node) && node.expression.getText(file) === 'both'
          ? ts.visitNode(node.arguments[tag === 'de' ? 1 : 0]!, visit)
          : ts.visitEachChild(node, visit, context);
      return ts.visitEachChild(file, visit, context);
    };
    const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
    return { code: ts.transpileModule(code, { compilerOptions, transformers: { before: [take] } }).outputText, map: null };
  },
};

// What is loaded with the page: the framework, and all but what is drawn only when it is asked for.
const isBase = (id: string) =>
  /node_modules\/(svelte|esm-env|clsx)\//.test(id) ||
  /\/src\/(base|words\/(?!catalogue\/(?!page\.ts\?en)|charts|product|sight|ending)|api\/(?!assistants|hooks|mine|reports)|link|page|message|device\/(?!awake|devices|pictures|trial)|call\/(call|state|sound|speaker|remembered)|thread|view\/parts\/(Icon|Sheet|Later|Timer|focus|keys|swipe|meters|orb|Orb|attachments)|view\/thread\/Empty)/.test(id);

// The build is committed, so its files have fixed names: a change shows as a
// change, not as a new file. The server revalidates them by ETag.
export default defineConfig({
  base: './',
  plugins: [apart, svelte()],
  build: {
    target: 'es2022',
    // Colours are written once, with light-dark().
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
    modulePreload: { polyfill: false },
    license: { fileName: 'licenses.md' },
    rolldownOptions: {
      input: ['index.html', 'src/shared.ts'],
      output: {
        entryFileNames: 'app/[name].js',
        chunkFileNames: 'app/[name].js',
        assetFileNames: 'app/[name][extname]',
        // What every page needs is one file: it is smaller, and requested once.
        codeSplitting: { groups: [{ name: 'base', test: isBase }] },
      },
    },
  },
  server: {
    proxy: {
      '/api': { target: 'http://127.0.0.1:8080', ws: true },
      '/v1': 'http://127.0.0.1:8080',
    },
  },
  resolve: process.env.VITEST ? { conditions: ['browser'] } : undefined,
  // A busy machine takes long for what is quick.
  test: { environment: 'node', include: ['test/**/*.test.ts'], testTimeout: 60_000, hookTimeout: 60_000 },
});
