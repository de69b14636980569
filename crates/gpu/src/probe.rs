//! What the device can do at best: how fast it reads memory, multiplies, and gets from one dispatch to the next.
//!
//! A kernel's time means little by itself. Held against these three, measured in the same minute on the same
//! device, it says how far the kernel is from what the device allows:
//! `T(m) >= max(bytes / BW, m · flops / FMA) + dispatches · t_dispatch`.

use foretoken_core::{Clock, OpsError};

use crate::gpu_ops::GpuOps;
use crate::recording::{Access, Buffer, Copy, Kernel, Params, Recorder, constants};

/// What a device can do at best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roofline {
    /// Streaming reads of a buffer, 10⁹ bytes a second.
    pub read_gb_per_s: f64,
    /// f32 multiply-adds, 10⁹ operations a second; a multiply-add counts as two.
    pub fma_gflop_per_s: f64,
    /// A dispatch that does nothing and waits for the one before it, microseconds.
    pub dispatch_us: f64,
}

impl Roofline {
    /// The least milliseconds in which the device could read `bytes`, do `flops` and go through `dispatches`.
    pub fn least_ms(&self, bytes: f64, flops: f64, dispatches: f64) -> f64 {
        let reading = bytes / (self.read_gb_per_s * 1e6);
        let computing = flops / (self.fma_gflop_per_s * 1e6);
        reading.max(computing) + dispatches * self.dispatch_us * 1e-3
    }
}

/// `vec4<u32>` that a workgroup of `probes/read.wgsl` loads: 64 KiB.
const CHUNK_VEC4S: u32 = 4096;
const CHUNK_BYTES: u64 = 16 * CHUNK_VEC4S as u64;
/// Buffers no processor's caches hold. A hardware device gets the larger one: its last cache may have 64 MiB or more.
const SOFTWARE_READ_BYTES: u64 = 64 << 20;
const HARDWARE_READ_BYTES: u64 = 128 << 20;

/// Independent multiply-adds of a thread.
const CHAINS: u32 = 8;
const FMA_WORKGROUPS: u32 = 1024;
const FMA_WORKGROUP: u32 = 64;
const FMA_UNROLL: u32 = 16;
const FMA_ITERATIONS: u32 = 16;
const FMA_FLOPS: f64 =
    2.0 * (CHAINS * FMA_UNROLL * FMA_ITERATIONS) as f64 * (FMA_WORKGROUPS * FMA_WORKGROUP) as f64;

/// Dispatches in the pass that times them.
const DISPATCHES: u32 = 200;

/// A submission must take this long to be timed, so that submitting it and waiting for it (below half a millisecond)
/// does not count.
const LEAST_MS: f64 = 20.0;
/// Dispatches of a submission at most, whatever a coarse clock says.
const MOST_DISPATCHES: u32 = 1 << 12;
/// Timed submissions; the shortest counts, as everything else that happens can only lengthen them.
const TRIES: usize = 5;

/// The streaming read in the order that suits the device: hardware joins the loads of neighbouring threads, while a
/// software driver follows each thread by itself, along a run of its own.
const fn read_kernel(software: bool) -> Kernel {
    let workgroup = if software { 8 } else { 64 };
    let loads = CHUNK_VEC4S / workgroup;
    let (thread_stride, load_stride) = if software { (loads, 1) } else { (1, workgroup) };
    Kernel {
        constants: constants([
            ("WORKGROUP", workgroup),
            ("READ_VEC4S", loads),
            ("THREAD_STRIDE", thread_stride),
            ("LOAD_STRIDE", load_stride),
        ]),
        ..Kernel::new("probes/read.wgsl", &[Access::Read, Access::Write])
    }
}

const FMA: Kernel = Kernel {
    constants: constants([("CHAINS", CHAINS), ("UNROLL", FMA_UNROLL)]),
    ..Kernel::new("probes/fma.wgsl", &[Access::Write])
};

const DISPATCH: Kernel = Kernel::new("probes/dispatch.wgsl", &[Access::Write]);

pub(crate) fn catalog() -> Vec<Kernel> {
    vec![read_kernel(true), read_kernel(false), FMA, DISPATCH]
}

impl GpuOps {
    /// Measures the device, in about half a second. What is allocated for it is freed again, and nothing of it is in
    /// [`GpuOps::counters`].
    ///
    /// # Errors
    /// Whatever the device says, lack of memory for a buffer of 64 MiB (128 MiB in hardware) included.
    pub async fn probe(&self) -> Result<Roofline, OpsError> {
        let gpu = self.recorder.gpu.clone();
        let recorder = Recorder::new(gpu.clone(), self.recorder.overrides().clone(), 16);
        let roofline = Probe::measure(recorder).await;
        // The device lets go of buffers when it is next asked how far it is.
        gpu.wait()?;
        match roofline {
            Err(OpsError::OutOfMemory { .. }) => gpu.forget(),
            _ => gpu.check()?,
        }
        roofline
    }
}

/// A recorder of its own: everything the probes create ends with it.
struct Probe {
    recorder: Recorder,
    out: Buffer,
    readback: wgpu::Buffer,
}

impl Probe {
    async fn measure(recorder: Recorder) -> Result<Roofline, OpsError> {
        let mut probe = Self::new(recorder)?;
        Ok(Roofline {
            read_gb_per_s: probe.read().await?,
            fma_gflop_per_s: probe.fma().await?,
            dispatch_us: probe.dispatch().await?,
        })
    }

    fn new(mut recorder: Recorder) -> Result<Self, OpsError> {
        let out = recorder.buffer("probe result", 16)?;
        let readback = recorder.readback_buffer(16);
        Ok(Self {
            recorder,
            out,
            readback,
        })
    }

    async fn read(&mut self) -> Result<f64, OpsError> {
        let gpu = &self.recorder.gpu;
        let software = gpu.report.software;
        let wanted = if software {
            SOFTWARE_READ_BYTES
        } else {
            HARDWARE_READ_BYTES
        };
        let chunks = wanted.min(gpu.max_binding_bytes) / CHUNK_BYTES;
        let bytes = chunks * CHUNK_BYTES;
        let words = self.recorder.buffer("probe", bytes)?;
        let grid = [u32::try_from(chunks).expect("few chunks"), 1, 1];
        let out = self.out.clone();
        let ms = self
            .shortest(&read_kernel(software), [0; 8], &[&words, &out], grid)
            .await?;
        Ok(bytes as f64 / (ms * 1e6))
    }

    async fn fma(&mut self) -> Result<f64, OpsError> {
        let params = [
            FMA_ITERATIONS,
            0.999_f32.to_bits(),
            0.001_f32.to_bits(),
            0,
            0,
            0,
            0,
            0,
        ];
        let out = self.out.clone();
        let ms = self
            .shortest(&FMA, params, &[&out], [FMA_WORKGROUPS, 1, 1])
            .await?;
        Ok(FMA_FLOPS / (ms * 1e6))
    }

    async fn dispatch(&mut self) -> Result<f64, OpsError> {
        let out = self.out.clone();
        let mut shortest = f64::INFINITY;
        // One more goes first, which makes the pipeline.
        for attempt in 0..=TRIES {
            let ms = self
                .submission(&DISPATCH, [0; 8], &[&out], [1, 1, 1], DISPATCHES)
                .await?;
            if attempt > 0 {
                shortest = shortest.min(ms);
            }
        }
        Ok(shortest * 1e3 / f64::from(DISPATCHES))
    }

    /// Milliseconds of one dispatch: so many go into a submission that it lasts.
    async fn shortest(
        &mut self,
        kernel: &Kernel,
        params: Params,
        buffers: &[&Buffer],
        grid: [u32; 3],
    ) -> Result<f64, OpsError> {
        // Compiles, and fills the buffers with zeros.
        self.submission(kernel, params, buffers, grid, 1).await?;
        let mut dispatches = 1;
        let mut shortest = loop {
            let ms = self
                .submission(kernel, params, buffers, grid, dispatches)
                .await?;
            if ms >= LEAST_MS || dispatches >= MOST_DISPATCHES {
                break ms;
            }
            dispatches *= 2;
        };
        for _ in 1..TRIES {
            let ms = self
                .submission(kernel, params, buffers, grid, dispatches)
                .await?;
            shortest = shortest.min(ms);
        }
        Ok(shortest / f64::from(dispatches))
    }

    /// Milliseconds of a submission of `dispatches` equal dispatches in one pass, to the end of waiting for it.
    async fn submission(
        &mut self,
        kernel: &Kernel,
        params: Params,
        buffers: &[&Buffer],
        grid: [u32; 3],
        dispatches: u32,
    ) -> Result<f64, OpsError> {
        for _ in 0..dispatches {
            self.recorder.dispatch(kernel, params, buffers, grid);
        }
        let clock = Clock::start();
        let copy = Copy::new(&self.out, &self.readback, 16);
        self.recorder.submit(1, &[copy])?;
        self.recorder.read(&self.readback, 16).await?;
        Ok(clock.elapsed_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_takes_the_longer_of_reading_and_computing() {
        let roofline = Roofline {
            read_gb_per_s: 10.0,
            fma_gflop_per_s: 100.0,
            dispatch_us: 20.0,
        };
        // 100 MB at 10 GB/s are 10 ms, 0.2 Gflop at 100 Gflop/s are 2 ms, 100 dispatches are 2 ms.
        assert!((roofline.least_ms(1e8, 2e8, 100.0) - 12.0).abs() < 1e-9);
        assert!((roofline.least_ms(1e8, 2e9, 100.0) - 22.0).abs() < 1e-9);
    }
}
