import { readdirSync, readFileSync } from 'node:fs';
import { brotliCompressSync, brotliDecompressSync } from 'node:zlib';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import type { Rolldown } from 'vite';
import { defineConfig } from 'vitest/config';
import { languages } from './languages.ts';

/** Beside each larger file the same as browsers take it. What the last build has is kept: versions of Node.js compress otherwise. */
const last = new Map<string, Buffer>();
const compressed = {
  name: 'compressed',
  enforce: 'post' as const,
  buildStart() {
    for (const name of readdirSync('dist', { recursive: true, encoding: 'utf8' })) if (name.endsWith('.br')) last.set(name, readFileSync(`dist/${name}`));
  },
  generateBundle: {
    order: 'post' as const,
    handler(this: Rolldown.PluginContext, _: unknown, bundle: Rolldown.OutputBundle) {
      for (const [name, file] of Object.entries(bundle)) {
        const bytes = Buffer.from(file.type === 'chunk' ? file.code : file.source);
        if (bytes.length < 1000 || !/\.(js|css|html)$/.test(name)) continue;
        const known = last.get(`${name}.br`);
        this.emitFile({ type: 'asset', fileName: `${name}.br`, source: known && brotliDecompressSync(known).equals(bytes) ? known : brotliCompressSync(bytes) });
      }
    },
  },
};

// What is loaded with the page: the framework, and all but what is drawn only when it is asked for.
const isBase = (id: string) =>
  /node_modules\/(svelte|esm-env|clsx)\//.test(id) ||
  /\/src\/(base|words\/(?!\w+\.json(?!\?page)|(?!en)\w+\.json|charts|product|sight|ending)|api\/(?!assistants|hooks|mine|reports)|link|page|message|device\/(?!awake|devices|pictures|trial)|call\/(call|state|sound|speaker|remembered)|thread|view\/parts\/(Icon|Sheet|Later|Timer|focus|keys|swipe|meters|orb|Orb|attachments|Dialog|WhoPill)|view\/(App|Dialogs|Dock|NoticeList|Panels|Thread|TopBar)\.|view\/side\/(Sidebar|ThreadItem)|view\/thread\/(Banner|Composer|Empty)|app\.css)/.test(id);

// The build is committed, so its files have fixed names: a change shows as a
// change, not as a new file. The server revalidates them by ETag.
export default defineConfig({
  base: './',
  plugins: [languages, svelte(), compressed],
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
