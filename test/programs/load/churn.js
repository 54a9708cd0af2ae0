// SPDX-License-Identifier: MIT
// An allocation-heavy load for node: what lies outside its garbage-collected heap (buffers, zlib
// and crypto state, worker isolates) comes from malloc. Prints one line a part, the same each run.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');
const { promisify } = require('util');

let seed = 12345;
function rnd(limit) {
  seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
  return seed % limit;
}

function text(length) {
  let s = '';
  while (s.length < length) s += 'word' + rnd(1000) + ' ';
  return s;
}

// A worker makes buffers and gives them away; the main thread frees them.
if (!isMainThread) {
  for (let i = 0; i < workerData.count; i++) {
    const block = new ArrayBuffer(1000 + ((i * 7919) % 60000));
    new Uint8Array(block).fill(i & 255);
    parentPort.postMessage({ i, block }, [block]);
  }
} else {
  main(Number(process.argv[2] || 8)).catch((problem) => {
    console.error(problem);
    process.exit(1);
  });
}

function buffers(rounds) {
  let sum = 0;
  const live = new Array(2000);
  for (let i = 0; i < rounds * 4000; i++) {
    const b = Buffer.allocUnsafeSlow(16 + rnd(i % 50 === 0 ? 300000 : 4000));
    b.writeUInt32LE(i, b.length - 4);
    sum += b.readUInt32LE(b.length - 4);
    live[rnd(live.length)] = b;
  }
  console.log(`buffers ${sum}`);
}

function maps(rounds) {
  const hash = crypto.createHash('sha256');
  for (let r = 0; r < rounds; r++) {
    const map = new Map();
    for (let i = 0; i < 20000; i++) map.set(`key${rnd(30000)}`, [r, i, text(rnd(40))]);
    const json = JSON.stringify([...map].sort());
    hash.update(json);
    if (JSON.parse(json).length !== map.size) throw new Error('lost entries');
  }
  console.log(`maps ${hash.digest('hex')}`);
}

async function compress(rounds) {
  const deflate = promisify(zlib.deflate);
  const inflate = promisify(zlib.inflate);
  const brotli = promisify(zlib.brotliCompress);
  const unbrotli = promisify(zlib.brotliDecompress);
  const hash = crypto.createHash('sha256');
  let trips = 0;
  for (let r = 0; r < rounds; r++) {
    await Promise.all(Array.from({ length: 8 }, async (_, k) => {
      const data = Buffer.from(text(20000 + k * 15000));
      const fast = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } };
      const packed = k % 2 ? await deflate(data) : await brotli(data, fast);
      const back = k % 2 ? await inflate(packed) : await unbrotli(packed);
      if (!back.equals(data)) throw new Error('a round trip changed the data');
      trips++;
    }));
    hash.update(crypto.pbkdf2Sync('pass', 'salt' + r, 200, 64, 'sha512'));
  }
  console.log(`zlib ${trips} ${hash.digest('hex')}`);
}

async function workers(rounds) {
  let bytes = 0, blocks = 0;
  const kept = new Map();
  await Promise.all([0, 1, 2, 3].map((n) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: { count: rounds * 500 } });
    worker.on('message', ({ i, block }) => {
      const view = new Uint8Array(block);
      if (view[0] !== (i & 255) || view[view.length - 1] !== (i & 255)) {
        reject(new Error('a transferred buffer changed'));
      }
      bytes += view.length;
      blocks++;
      kept.set(n * 64 + (i % 64), view);
    });
    worker.on('error', reject);
    worker.on('exit', (code) => (code ? reject(new Error(`worker ${code}`)) : resolve()));
  })));
  console.log(`workers 4 ${blocks}`);
  console.log(`bytes ${bytes}`);
}

async function main(rounds) {
  buffers(rounds);
  maps(rounds);
  await compress(rounds);
  await workers(rounds);
  console.log('end ok');
}
