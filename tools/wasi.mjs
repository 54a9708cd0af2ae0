// SPDX-License-Identifier: MIT
// Runs a program for WASI, with the environment and folders of this one.
//
//   node --no-warnings --single-threaded tools/wasi.mjs PROGRAM.wasm ARGUMENT...
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [path, ...rest] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [path, ...rest], env: process.env,
                        preopens: { "/": "/" }, returnOnExit: true });
const module = await WebAssembly.compile(await readFile(path));
const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: wasi.wasiImport });
process.exitCode = wasi.start(instance);
