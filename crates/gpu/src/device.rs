//! Adapters and the device: which one is taken, with which limits and features, and how its failures surface.

use std::future::{Future, poll_fn};
use std::pin::pin;
#[cfg(target_arch = "wasm32")]
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use foretoken_core::OpsError;

#[cfg(target_arch = "wasm32")]
use crate::browser::Lease;
#[cfg(target_arch = "wasm32")]
use crate::browser_adapter::Adapter;
#[cfg(not(target_arch = "wasm32"))]
use crate::native_adapter::Adapter;
use crate::tier::Tier;

/// An adapter as `foretoken devices` shows it.
#[derive(Debug, Clone)]
pub struct AdapterReport {
    /// What `--device` takes.
    pub index: usize,
    /// The driver's name for it.
    pub name: String,
    /// `Vulkan`, `Metal`, `Dx12`, `BrowserWebGpu`.
    pub backend: String,
    /// `DiscreteGpu`, `IntegratedGpu`, `Cpu` …
    pub device_type: String,
    /// Driver and its version.
    pub driver: String,
    /// The fullest tier it runs.
    pub tier: Tier,
    /// Whether it computes on the CPU.
    pub software: bool,
    /// Smallest and largest subgroup.
    pub subgroup_size: (u32, u32),
    /// Whether it stores f16.
    pub shader_f16: bool,
    /// Largest storage binding in bytes.
    pub max_binding_bytes: u64,
    /// Largest buffer in bytes.
    pub max_buffer_bytes: u64,
}

/// Lanes that hand a block of 32 activations round as a vec4 each.
pub(crate) const BROADCAST_LANES: u32 = 8;
/// Lanes that hand it round as two each: what the smallest subgroups have, as WebGPU promises none smaller.
pub(crate) const NARROW_LANES: u32 = 4;

impl AdapterReport {
    /// Lanes that every subgroup has and that hand activations round: 8, 4, or 0 where there are fewer.
    pub(crate) fn broadcast_lanes(&self) -> u32 {
        let lanes = [BROADCAST_LANES, NARROW_LANES];
        let fits = |lanes: &u32| *lanes <= self.subgroup_size.0;
        lanes.into_iter().find(fits).unwrap_or(0)
    }
}

fn fullest_tier(adapter: &Adapter) -> Tier {
    Tier {
        subgroups: adapter.has_subgroups() && adapter.get_info().subgroup_min_size >= NARROW_LANES,
        f16: adapter.features().contains(wgpu::Features::SHADER_F16),
    }
}

fn report(index: usize, adapter: &Adapter) -> AdapterReport {
    let info = adapter.get_info();
    let limits = adapter.limits();
    AdapterReport {
        index,
        name: info.name.clone(),
        backend: format!("{:?}", info.backend),
        device_type: format!("{:?}", info.device_type),
        driver: format!("{} {}", info.driver, info.driver_info)
            .trim()
            .to_owned(),
        tier: fullest_tier(adapter),
        software: info.device_type == wgpu::DeviceType::Cpu,
        subgroup_size: (info.subgroup_min_size, info.subgroup_max_size),
        shader_f16: adapter.features().contains(wgpu::Features::SHADER_F16),
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_buffer_bytes: limits.max_buffer_size,
    }
}

fn instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.flags = wgpu::InstanceFlags::empty();
    wgpu::Instance::new(descriptor)
}

/// Hardware before software, discrete before integrated; otherwise the driver's order.
#[cfg(not(target_arch = "wasm32"))]
fn preference(adapter: &Adapter) -> u32 {
    match adapter.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

#[cfg(not(target_arch = "wasm32"))]
async fn all(instance: &wgpu::Instance) -> Vec<Adapter> {
    let adapters = instance.enumerate_adapters(wgpu::Backends::all()).await;
    let mut adapters: Vec<Adapter> = adapters.into_iter().map(Adapter).collect();
    adapters.sort_by_key(preference);
    adapters
}

#[cfg(target_arch = "wasm32")]
async fn all(instance: &wgpu::Instance) -> Vec<Adapter> {
    let options = wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        ..Default::default()
    };
    Adapter::request(instance, &options)
        .await
        .into_iter()
        .collect()
}

/// Every adapter, the one that would be taken first.
pub async fn adapters() -> Vec<AdapterReport> {
    let instance = instance();
    all(&instance)
        .await
        .iter()
        .enumerate()
        .map(|(index, adapter)| report(index, adapter))
        .collect()
}

/// What to do when there is no adapter at all.
const NO_ADAPTER: &str = if cfg!(target_arch = "wasm32") {
    "the browser offers no WebGPU adapter; update it, enable hardware acceleration, or use Chrome, Edge, Safari 26 or Firefox 141+"
} else if cfg!(target_os = "linux") {
    "no Vulkan driver was found; `cargo xtask setup` installs a loader and Mesa's software driver, or pass --device cpu"
} else {
    "no Vulkan, Metal or DX12 driver was found; pass --device cpu for the reference implementation"
};

fn choose(adapters: Vec<Adapter>, wanted: Option<&str>) -> Result<(usize, Adapter), OpsError> {
    if adapters.is_empty() {
        return Err(OpsError::Unavailable {
            reason: NO_ADAPTER.to_owned(),
        });
    }
    let names: Vec<String> = adapters
        .iter()
        .enumerate()
        .map(|(i, a)| format!("{i} {}", a.get_info().name))
        .collect();
    let found = match wanted {
        None => Some(0),
        Some(text) => text
            .parse::<usize>()
            .ok()
            .filter(|index| *index < adapters.len())
            .or_else(|| {
                let text = text.to_lowercase();
                adapters
                    .iter()
                    .position(|a| a.get_info().name.to_lowercase().contains(&text))
            }),
    };
    let index = found.ok_or_else(|| OpsError::Unavailable {
        reason: format!(
            "no device {:?}; there are: {}",
            wanted.unwrap_or_default(),
            names.join(", ")
        ),
    })?;
    let adapter = adapters
        .into_iter()
        .nth(index)
        .expect("index was found in this list");
    Ok((index, adapter))
}

/// What the driver reported outside any call: read at the next wait.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    lost: Option<String>,
    /// A buffer that was not to be had. It stays: something may hold the buffer that is none.
    memory: Option<OpsError>,
    error: Option<OpsError>,
    /// Buffers of which the driver has not said yet whether there was memory for them.
    unsettled: usize,
    waker: Option<Waker>,
}

impl Fault {
    /// The device is gone.
    pub(crate) fn lose(&mut self, reason: String) {
        self.lost.get_or_insert(reason);
        self.wake();
    }

    /// The driver says that something is wrong.
    pub(crate) fn report(&mut self, error: OpsError) {
        self.error.get_or_insert(error);
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn check(&mut self) -> Result<(), OpsError> {
        if let Some(reason) = &self.lost {
            return Err(OpsError::DeviceLost {
                reason: reason.clone(),
            });
        }
        let memory = self.memory.clone();
        memory.or_else(|| self.error.take()).map_or(Ok(()), Err)
    }
}

/// An open device; a clone is the same one.
#[derive(Clone)]
pub(crate) struct Device {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) report: AdapterReport,
    pub(crate) tier: Tier,
    /// Storage bindings are kept at or below this many bytes; larger tensors are split by rows.
    pub(crate) max_binding_bytes: u64,
    fault: Arc<Mutex<Fault>>,
    #[cfg(target_arch = "wasm32")]
    pub(crate) lease: Rc<Lease>,
}

/// Seconds a wait may take natively before the device counts as hung: a slow one may compile for half of it, and a pass at the
/// end of a long context takes seconds on a processor that is busy.
const WAIT_SECONDS: u32 = 60;

pub(crate) fn lock(fault: &Mutex<Fault>) -> MutexGuard<'_, Fault> {
    fault
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Device {
    pub(crate) async fn open(wanted: Option<&str>, tier: Option<Tier>) -> Result<Self, OpsError> {
        let instance = instance();
        let (index, adapter) = choose(all(&instance).await, wanted)?;
        let report = report(index, &adapter);
        let tier = tier.unwrap_or(report.tier);
        if !report.tier.includes(tier) {
            return Err(OpsError::Unavailable {
                reason: format!(
                    "{} has no tier {tier}; its fullest is {}",
                    report.name, report.tier
                ),
            });
        }
        let mut required_features = wgpu::Features::empty();
        if tier.subgroups {
            required_features |= wgpu::Features::SUBGROUP;
        }
        if tier.f16 {
            required_features |= wgpu::Features::SHADER_F16;
        }
        let offered = adapter.limits();
        let required_limits = wgpu::Limits {
            max_storage_buffer_binding_size: offered.max_storage_buffer_binding_size,
            max_buffer_size: offered.max_buffer_size,
            ..wgpu::Limits::default()
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("foretoken"),
            required_features,
            required_limits,
            ..Default::default()
        };
        let (device, queue) =
            adapter
                .open(&descriptor)
                .await
                .map_err(|error| OpsError::Unavailable {
                    reason: format!("{} refused a device: {error}", report.name),
                })?;
        let fault = Arc::new(Mutex::new(Fault::default()));
        let on_lost = Arc::clone(&fault);
        device.set_device_lost_callback(move |reason, message| {
            lock(&on_lost).lose(format!("{reason:?} {message}").trim().to_owned());
        });
        let on_error = Arc::clone(&fault);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            let error = match error {
                wgpu::Error::OutOfMemory { .. } => OpsError::OutOfMemory {
                    what: "a buffer".to_owned(),
                    needed: 0,
                    available: "the driver refused it".to_owned(),
                },
                other => OpsError::Kernel {
                    kernel: "driver".to_owned(),
                    reason: other.to_string(),
                },
            };
            lock(&on_error).report(error);
        }));
        let max_binding_bytes = offered
            .max_storage_buffer_binding_size
            .min(offered.max_buffer_size)
            .min(128 << 20);
        let opened = Self {
            #[cfg(target_arch = "wasm32")]
            lease: Lease::new(&device, &queue, &fault, report.software)?,
            device,
            queue,
            report,
            tier,
            max_binding_bytes,
            fault,
        };
        #[cfg(target_arch = "wasm32")]
        opened.lease.nudge(opened.notices_late().await?);
        Ok(opened)
    }

    /// Whether this browser finds out only now and then that a map is done, as `nudge` says.
    #[cfg(target_arch = "wasm32")]
    async fn notices_late(&self) -> Result<bool, OpsError> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let buffer = self.create_buffer("a first read-back", 16, usage, 0);
        // A machine at work may be late once.
        for _ in 0..2 {
            let clock = foretoken_core::Clock::start();
            self.queue.submit([]);
            self.read(&buffer, 16).await?;
            if clock.elapsed_ms() < crate::nudge::LATE_MS {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fails with what the driver reported since the last look.
    pub(crate) fn check(&self) -> Result<(), OpsError> {
        lock(&self.fault).check()
    }

    /// Allocates a buffer. That there was no memory for it is told later: by [`Device::check`], and at the latest by
    /// [`Device::settle`]. `held` is what there is already, for the message.
    pub(crate) fn create_buffer(
        &self,
        what: &str,
        size: u64,
        usage: wgpu::BufferUsages,
        held: u64,
    ) -> wgpu::Buffer {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(what),
            size,
            usage,
            mapped_at_creation: false,
        });
        let popped = scope.pop();
        let what = what.to_owned();
        let refused = move |why: &str| OpsError::OutOfMemory {
            what: what.clone(),
            needed: size,
            available: format!(
                "{why} ({held} bytes are held already); a smaller model or context needs less"
            ),
        };
        #[cfg(target_arch = "wasm32")]
        if let Some(thrown) = self.lease.take_thrown() {
            lock(&self.fault).memory.get_or_insert(refused(&thrown));
        }
        lock(&self.fault).unsettled += 1;
        let fault = Arc::clone(&self.fault);
        now_or_when_told(async move {
            let error = popped.await;
            let mut fault = lock(&fault);
            fault.unsettled -= 1;
            if error.is_some() {
                fault
                    .memory
                    .get_or_insert(refused("the driver has no more"));
            }
            fault.wake();
        });
        buffer
    }

    /// Waits until it is known whether there was memory for every buffer.
    pub(crate) async fn settle(&self) -> Result<(), OpsError> {
        let known = poll_fn(|_| match lock(&self.fault).unsettled {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        });
        self.answered(known).await?;
        lock(&self.fault).memory.clone().map_or(Ok(()), Err)
    }

    /// Forgets what was reported of objects that nobody uses any more.
    pub(crate) fn forget(&self) {
        let mut fault = lock(&self.fault);
        (fault.memory, fault.error) = (None, None);
    }

    /// Says that something is being compiled: in a browser the next wait may take longer.
    pub(crate) fn compiles(&self) {
        #[cfg(target_arch = "wasm32")]
        self.lease.compiles();
    }

    /// What the driver answers, unless the device is lost meanwhile, or, in a browser, says nothing for too long.
    pub(crate) async fn answered<T>(&self, answer: impl Future<Output = T>) -> Result<T, OpsError> {
        let mut answer = pin!(answer);
        #[cfg(target_arch = "wasm32")]
        let mut wait = None;
        poll_fn(|context| {
            // The waker goes in first: a callback between the two looks would otherwise be missed.
            lock(&self.fault).waker = Some(context.waker().clone());
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            if let Some(reason) = &lock(&self.fault).lost {
                return Poll::Ready(Err(OpsError::DeviceLost {
                    reason: reason.clone(),
                }));
            }
            #[cfg(target_arch = "wasm32")]
            wait.get_or_insert_with(|| self.lease.wait());
            Poll::Pending
        })
        .await
    }

    /// Maps `bytes` of a buffer for reading, waits for it, copies it out.
    pub(crate) async fn read(
        &self,
        buffer: &wgpu::Buffer,
        bytes: u64,
    ) -> Result<Vec<u8>, OpsError> {
        let mapping = self.map(buffer, bytes);
        self.mapped(&mapping, bytes, None).await
    }

    /// Asks for a map of `bytes` of a buffer for reading.
    pub(crate) fn map(&self, buffer: &wgpu::Buffer, bytes: u64) -> Mapping {
        let mapping = Mapping {
            buffer: buffer.clone(),
            outcome: Arc::default(),
            #[cfg(target_arch = "wasm32")]
            compiled: self.lease.compiled(),
        };
        let result = Arc::clone(&mapping.outcome);
        let fault = Arc::clone(&self.fault);
        buffer.map_async(wgpu::MapMode::Read, 0..bytes, move |outcome| {
            *result
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(outcome);
            lock(&fault).wake();
        });
        mapping
    }

    /// Waits for a map of `bytes` and copies them out. Natively, work submitted after `submission` is not waited for.
    pub(crate) async fn mapped(
        &self,
        mapping: &Mapping,
        bytes: u64,
        submission: Option<wgpu::SubmissionIndex>,
    ) -> Result<Vec<u8>, OpsError> {
        self.wait_for(submission)?;
        let outcome = poll_fn(|_| mapping.outcome().map_or(Poll::Pending, Poll::Ready));
        let outcome = self.answered(outcome);
        #[cfg(target_arch = "wasm32")]
        let outcome = self.lease.nudging(outcome);
        let outcome = outcome.await?;
        self.check()?;
        outcome.map_err(|error| OpsError::DeviceLost {
            reason: error.to_string(),
        })?;
        #[cfg(target_arch = "wasm32")]
        self.lease.caught_up(mapping.compiled);
        match mapping.buffer.get_mapped_range(0..bytes) {
            Ok(view) => Ok(view.to_vec()),
            Err(error) => Err(OpsError::DeviceLost {
                reason: error.to_string(),
            }),
        }
    }

    /// Natively blocks until the queue is done; in a browser the event loop does the waiting.
    pub(crate) fn wait(&self) -> Result<(), OpsError> {
        self.wait_for(None)
    }

    /// The same, up to a submission.
    fn wait_for(&self, submission: Option<wgpu::SubmissionIndex>) -> Result<(), OpsError> {
        if cfg!(target_arch = "wasm32") {
            return Ok(());
        }
        let timeout = Some(std::time::Duration::from_secs(u64::from(WAIT_SECONDS)));
        match self.device.poll(wgpu::PollType::Wait {
            submission_index: submission,
            timeout,
        }) {
            Ok(_) => Ok(()),
            Err(_) => {
                self.check()?;
                Err(OpsError::Timeout {
                    seconds: WAIT_SECONDS,
                })
            }
        }
    }
}

type MapOutcome = Result<(), wgpu::BufferAsyncError>;

/// A map that was asked for. Dropping it takes it back, whether it came or not.
pub(crate) struct Mapping {
    buffer: wgpu::Buffer,
    /// Pipelines that were made before it was asked for.
    #[cfg(target_arch = "wasm32")]
    compiled: u32,
    outcome: Arc<Mutex<Option<MapOutcome>>>,
}

impl Mapping {
    fn outcome(&self) -> Option<MapOutcome> {
        let outcome = self.outcome.lock();
        outcome
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // What could not be mapped cannot be unmapped either.
        if !matches!(self.outcome(), Some(Err(_))) {
            self.buffer.unmap();
        }
    }
}

/// Natively the driver has answered when it is asked; a browser calls back.
fn now_or_when_told(told: impl Future<Output = ()> + 'static) {
    #[cfg(target_arch = "wasm32")]
    wasm_bindgen_futures::spawn_local(told);
    #[cfg(not(target_arch = "wasm32"))]
    {
        let mut context = std::task::Context::from_waker(Waker::noop());
        let told = pin!(told).poll(&mut context);
        assert!(told.is_ready(), "an error scope is known at once");
    }
}
