// Compiles a folder of WGSL with Tint (Dawn in Node):
//
//   node compile.mjs FOLDER [null | vulkan]
//
// FOLDER holds one folder per tier, each with its `.wgsl` files and a `features.txt`: one line for each WebGPU feature
// (`shader-f16`) or limit (`maxComputeWorkgroupStorageSize=32768`) that the tier asks a device for, or a size it must have (`subgroupMinSize=8`), or
// `hardware` for what no device runs that computes on the CPU. On `null`, a device
// that has every feature and runs nothing, Tint parses and validates; on `vulkan` it also writes SPIR-V, and the driver
// builds the pipeline. Ends with `N passed, M failed`; finding no shader is a failure.

import { readFileSync, readdirSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { create, globals } from 'webgpu';

Object.assign(globalThis, globals);

const [folder, backend = 'null'] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node compile.mjs FOLDER [null | vulkan]');
  process.exit(2);
}

// Dawn lives as long as these are referenced, and crashes when they are collected under it.
const gpu = create([`backend=${backend}`]);
const devices = [];

function requirements(tier) {
  const file = join(folder, tier, 'features.txt');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  const words = lines.map((line) => line.trim()).filter((line) => line !== '');
  const numbers = words.filter((word) => word.includes('=')).map((word) => word.split('='));
  // What a device cannot be asked for, only found to have.
  const found = numbers.filter(([name]) => name.startsWith('subgroup'));
  const hardware = words.includes('hardware');
  const limits = numbers.filter(([name]) => !name.startsWith('subgroup'));
  return {
    requiredFeatures: words.filter((word) => !word.includes('=') && word !== 'hardware'),
    requiredLimits: Object.fromEntries(limits.map(([name, value]) => [name, Number(value)])),
    hardware,
    found: Object.fromEntries(found.map(([name, value]) => [name, Number(value)])),
  };
}

function lacking(adapter, { requiredFeatures, requiredLimits, found, hardware }) {
  const features = requiredFeatures.filter((name) => !adapter.features.has(name));
  const limits = Object.entries(requiredLimits)
    .filter(([name, value]) => !(adapter.limits[name] >= value))
    .map(([name, value]) => `${name} of ${value}`);
  // The null device runs nothing, so any size serves it.
  const sizes = Object.entries(found)
    .filter(([name, value]) => backend !== 'null' && adapter.info[name] < value)
    .map(([name, value]) => `${name} of ${value}`);
  const cpu = backend !== 'null' && hardware && adapter.info.isFallbackAdapter;
  return [...features, ...limits, ...sizes, ...(cpu ? ['hardware'] : [])];
}

// The messages of a shader that does not compile; none for one that does.
async function faults(device, label, code) {
  device.pushErrorScope('validation');
  device.pushErrorScope('internal');
  const module = device.createShaderModule({ label, code });
  const { messages } = await module.getCompilationInfo();
  const errors = messages
    .filter((message) => message.type === 'error')
    .map((message) => `${label}.wgsl:${message.lineNum}:${message.linePos}: ${message.message}`);
  if (errors.length === 0) {
    // Not its Async twin, which crashes in this build of Dawn.
    device.createComputePipeline({ label, layout: 'auto', compute: { module } });
  }
  const scopes = [await device.popErrorScope(), await device.popErrorScope()];
  if (errors.length > 0) return errors;
  return scopes.filter((error) => error).map((error) => `${label}.wgsl: ${error.message.trim()}`);
}

const tiers = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name)
  .sort();
let passed = 0;
let failed = 0;
for (const tier of tiers) {
  const shaders = readdirSync(join(folder, tier), { recursive: true })
    .filter((name) => name.endsWith('.wgsl'))
    .sort();
  // A device ends its adapter, so each tier asks for its own.
  const adapter = await gpu.requestAdapter();
  if (!adapter) {
    console.error(`no adapter on ${backend}: is its driver installed?`);
    process.exit(1);
  }
  const needs = requirements(tier);
  const missing = lacking(adapter, needs);
  if (missing.length > 0) {
    console.log(`${tier}: ${shaders.length} shaders skipped (no ${missing.join(', ')} on this adapter)`);
    continue;
  }
  const device = await adapter.requestDevice({
    requiredFeatures: needs.requiredFeatures,
    requiredLimits: needs.requiredLimits,
  });
  devices.push(device);
  const before = failed;
  for (const shader of shaders) {
    const code = readFileSync(join(folder, tier, shader), 'utf8');
    const messages = await faults(device, `${tier}/${shader.slice(0, -'.wgsl'.length)}`, code);
    for (const message of messages) console.error(message);
    if (messages.length > 0) failed += 1;
    else passed += 1;
  }
  console.log(`${tier}: ${shaders.length} shaders on ${adapter.info.device || adapter.info.description || backend}, ${failed - before} failed`);
}
if (passed + failed === 0) {
  console.error(`no shader was compiled: ${folder} holds none that this adapter can take`);
  failed = 1;
}
console.log(`${passed} passed, ${failed} failed`);
// Dawn's own threads would keep Node alive.
process.exit(failed > 0 ? 1 : 0);
