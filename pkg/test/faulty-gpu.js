// A WebGPU that goes wrong when it is told to: the prototypes of this page or worker, wrapped.

/**
 * Wraps them. What comes back says what goes wrong, all of it nothing at first, and can be changed at any time:
 * `adapter`: "none"; `device`: "refused" or "pending", for ever; `maps`: "dropped", or "held" until it is changed; `answers`: "dropped", where
 * the queue is asked whether it is done; `buffers`: the how-manieth `createBuffer` from now on fails, and `bufferFails`: "thrown" or "told" to
 * the error scope; `writes`: "thrown"; `limit`: the largest buffer and binding; `speed`: how much faster clocks and timers run. It counts
 * `made` buffers, `asked` answers, and keeps `devices` and `labelled` buffers. `restore()` unwraps.
 */
export function faultyGpu() {
  const fault = { devices: [], labelled: new Map(), made: 0, asked: 0, speed: 1 };
  const undo = [];
  fault.restore = () => undo.forEach((put) => put());

  /** Replaces a method or a getter, wherever in the chain of prototypes it is. */
  function wrap(owner, name, make) {
    while (!Object.hasOwn(owner, name)) owner = Object.getPrototypeOf(owner);
    const before = Object.getOwnPropertyDescriptor(owner, name);
    const kind = "value" in before ? "value" : "get";
    Object.defineProperty(owner, name, { ...before, [kind]: make(before[kind]) });
    undo.push(() => Object.defineProperty(owner, name, before));
  }
  const never = new Promise(() => {});

  wrap(GPU.prototype, "requestAdapter", (own) => async function (...args) {
    return fault.adapter === "none" ? null : own.apply(this, args);
  });
  wrap(GPUAdapter.prototype, "requestDevice", (own) => async function (...args) {
    if (fault.device === "refused") throw new DOMException("no device today", "OperationError");
    if (fault.device === "pending") return never;
    const device = await own.apply(this, args);
    fault.devices.push(device);
    return device;
  });
  // Real hardware is not waited for as long as a processor.
  wrap(GPUAdapterInfo.prototype, "isFallbackAdapter", () => () => false);
  for (const name of ["maxBufferSize", "maxStorageBufferBindingSize"]) {
    wrap(GPUSupportedLimits.prototype, name, (own) => function () {
      return fault.limit ?? own.call(this);
    });
  }

  /** What the next error scope to be popped has caught. */
  let caught;
  wrap(GPUDevice.prototype, "createBuffer", (own) => function (descriptor) {
    fault.made++;
    if (fault.buffers === undefined || fault.buffers-- !== 0) {
      const buffer = own.call(this, descriptor);
      fault.labelled.set(descriptor.label, buffer);
      return buffer;
    }
    fault.failed = descriptor;
    if (fault.bufferFails === "thrown") throw new RangeError("no room for it");
    caught = new GPUOutOfMemoryError("no room for it");
    // One that cannot be used, as the real one could not.
    return own.call(this, { ...descriptor, usage: 0 });
  });
  wrap(GPUDevice.prototype, "popErrorScope", (own) => async function () {
    const [told, found] = [caught, own.call(this)];
    caught = undefined;
    return told ?? found;
  });
  wrap(GPUBuffer.prototype, "mapAsync", (own) => async function (...args) {
    const mapped = own.apply(this, args);
    if (fault.maps === "dropped") {
      mapped.catch(() => {});
      return never;
    }
    await mapped;
    while (fault.maps === "held") await new Promise((resolve) => setTimeout(resolve, 50));
  });
  wrap(GPUQueue.prototype, "onSubmittedWorkDone", (own) => function () {
    fault.asked++;
    return fault.answers === "dropped" ? never : own.call(this);
  });
  wrap(GPUQueue.prototype, "writeBuffer", (own) => function (...args) {
    if (fault.writes === "thrown") throw new DOMException("no", "OperationError");
    return own.apply(this, args);
  });

  // The clock goes on from where it is, at another pace.
  let [real, fake] = [performance.now(), performance.now()];
  wrap(Performance.prototype, "now", (own) => function () {
    const now = own.call(this);
    fake += (now - real) * fault.speed;
    real = now;
    return fake;
  });
  wrap(globalThis, "setTimeout", (own) => (call, ms, ...args) => own(call, ms / fault.speed, ...args));
  return fault;
}
