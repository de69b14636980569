// Headless Chromium with WebGPU on its software driver, the only adapter that every machine has, and kept from the network.

export const CHROMIUM_ARGS = [
  "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--disable-quic", "--no-first-run",
  "--js-flags=--expose-gc", "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
