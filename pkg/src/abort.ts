/** Waiting that an AbortSignal ends. */

/** A signal that nobody raises. */
export const never: AbortSignal = new AbortController().signal;

/**
 * `promise`; or, as soon as the signal is raised, a rejection with its reason. What comes of the promise after that goes to `late`.
 */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal, late: (value: T) => void = () => {}): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      reject(signal.reason);
      promise.then(late, () => {});
    };
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    const done = () => signal.removeEventListener("abort", abort);
    promise.then(
      (value) => (done(), resolve(value)),
      (error) => (done(), reject(error)),
    );
  });
}
