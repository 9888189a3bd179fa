import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

const BUNDLED = ["preact", "@preact/signals", "@preact/signals-core", "uplot"];

/** Writes the licences of the bundled packages beside the bundle, as they demand. */
const licences: Plugin = {
  name: "licences",
  generateBundle() {
    const texts = BUNDLED.map((name) => `${name}\n\n${readFileSync(`${import.meta.dirname}/node_modules/${name}/LICENSE`, "utf-8").trim()}\n`);
    this.emitFile({ type: "asset", fileName: "licenses.txt", source: texts.join("\n---\n\n") });
  },
};

// The names have no hashes: the server sends ETags, and the built files are compared with their sources in CI.
export default defineConfig({
  root: import.meta.dirname,
  plugins: [licences],
  build: {
    outDir: "built",
    emptyOutDir: true,
    target: "es2022",
    reportCompressedSize: false,
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: "src/main.tsx",
      output: { entryFileNames: "app.js", assetFileNames: "app[extname]", codeSplitting: false },
    },
  },
});
