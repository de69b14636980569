// The package's worker, whose device a page can take away over a channel.

import "/pkg/dist/worker.js";

const { requestDevice } = GPUAdapter.prototype;
GPUAdapter.prototype.requestDevice = async function (...args) {
  const device = await requestDevice.apply(this, args);
  new BroadcastChannel("lose the device").onmessage = () => device.destroy();
  return device;
};
