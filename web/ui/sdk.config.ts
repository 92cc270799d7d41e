import { defineConfig } from 'vite';

// Bundles sdk/main.ts for the end-to-end test, which then needs no Node.js. As
// with the page, the result is committed and the same on every machine.
export default defineConfig({
  publicDir: false,
  build: {
    outDir: '../../e2e/testdata/sdk',
    emptyOutDir: true,
    target: 'es2022',
    chunkSizeWarningLimit: 1500,
    license: { fileName: 'licenses.md' },
    lib: { entry: 'sdk/main.ts', name: 'agents', formats: ['iife'], fileName: () => 'agents.js' },
    rolldownOptions: { output: { codeSplitting: false } },
  },
});
