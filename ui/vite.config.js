// How src/ becomes dist/: one script, one style sheet, one page, with names that do not change (the broker answers with ETags).
import { defineConfig } from "vite";
import { svelte } from "@sveltejs/vite-plugin-svelte";

export default defineConfig({
  plugins: [svelte({ compilerOptions: { runes: true, fragments: "tree", discloseVersion: false } })], // trees pack smaller than the markup they stand for
  base: "./",
  build: {
    target: ["chrome125", "firefox128", "safari18"], // light-dark() and nesting stay as written
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        entryFileNames: "ui.js",
        assetFileNames: (asset) => (asset.names?.some((name) => name.endsWith(".css")) ? "ui.css" : "[name][extname]"),
      },
    },
  },
});
