//! Adapters and the device: which one is taken, with which limits and features, and how its failures surface.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use foretoken_core::OpsError;

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

/// The smallest subgroup that can hand a block of 32 activations round as eight vec4.
const BROADCAST_LANES: u32 = 8;

fn fullest_tier(adapter: &wgpu::Adapter) -> Tier {
    let features = adapter.features();
    Tier {
        subgroups: features.contains(wgpu::Features::SUBGROUP)
            && adapter.get_info().subgroup_min_size >= BROADCAST_LANES,
        f16: features.contains(wgpu::Features::SHADER_F16),
    }
}

fn report(index: usize, adapter: &wgpu::Adapter) -> AdapterReport {
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
fn preference(adapter: &wgpu::Adapter) -> u32 {
    match adapter.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

#[cfg(not(target_arch = "wasm32"))]
async fn all(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    let mut adapters = instance.enumerate_adapters(wgpu::Backends::all()).await;
    adapters.sort_by_key(preference);
    adapters
}

#[cfg(target_arch = "wasm32")]
async fn all(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    let options = wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        ..Default::default()
    };
    instance
        .request_adapter(&options)
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

fn choose(
    adapters: Vec<wgpu::Adapter>,
    wanted: Option<&str>,
) -> Result<(usize, wgpu::Adapter), OpsError> {
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
struct Fault {
    lost: Option<String>,
    error: Option<OpsError>,
    waker: Option<Waker>,
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
}

/// Seconds a wait may take before the device counts as hung: a slow one may compile for half of it, and a pass at the end of
/// a long context takes seconds on a processor that is busy.
const WAIT_SECONDS: u32 = 60;

fn lock(fault: &Mutex<Fault>) -> MutexGuard<'_, Fault> {
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
                .request_device(&descriptor)
                .await
                .map_err(|error| OpsError::Unavailable {
                    reason: format!("{} refused a device: {error}", report.name),
                })?;
        let fault = Arc::new(Mutex::new(Fault::default()));
        let on_lost = Arc::clone(&fault);
        device.set_device_lost_callback(move |reason, message| {
            let mut fault = lock(&on_lost);
            fault.lost = Some(format!("{reason:?} {message}").trim().to_owned());
            if let Some(waker) = fault.waker.take() {
                waker.wake();
            }
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
            lock(&on_error).error.get_or_insert(error);
        }));
        let max_binding_bytes = offered
            .max_storage_buffer_binding_size
            .min(offered.max_buffer_size)
            .min(128 << 20);
        Ok(Self {
            device,
            queue,
            report,
            tier,
            max_binding_bytes,
            fault,
        })
    }

    /// Fails with what the driver reported since the last look.
    pub(crate) fn check(&self) -> Result<(), OpsError> {
        let mut fault = lock(&self.fault);
        if let Some(reason) = &fault.lost {
            return Err(OpsError::DeviceLost {
                reason: reason.clone(),
            });
        }
        fault.error.take().map_or(Ok(()), Err)
    }

    /// Maps `bytes` of a buffer for reading, waits for it, copies it out.
    pub(crate) async fn read(
        &self,
        buffer: &wgpu::Buffer,
        bytes: u64,
    ) -> Result<Vec<u8>, OpsError> {
        let mapping = self.map(buffer, bytes);
        self.mapped(&mapping, buffer, bytes, None).await
    }

    /// Asks for a map of `bytes` of a buffer for reading.
    pub(crate) fn map(&self, buffer: &wgpu::Buffer, bytes: u64) -> Mapping {
        let mapping = Mapping::default();
        let result = Arc::clone(&mapping.outcome);
        let fault = Arc::clone(&self.fault);
        buffer.map_async(wgpu::MapMode::Read, 0..bytes, move |outcome| {
            *result
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(outcome);
            if let Some(waker) = lock(&fault).waker.take() {
                waker.wake();
            }
        });
        mapping
    }

    /// Waits for a map of `bytes`, copies them out and takes the map back. Natively, work submitted after `submission` is
    /// not waited for.
    pub(crate) async fn mapped(
        &self,
        mapping: &Mapping,
        buffer: &wgpu::Buffer,
        bytes: u64,
        submission: Option<wgpu::SubmissionIndex>,
    ) -> Result<Vec<u8>, OpsError> {
        self.wait_for(submission)?;
        let map = Mapped {
            device: self,
            outcome: Arc::clone(&mapping.outcome),
        };
        #[cfg(target_arch = "wasm32")]
        let map = crate::nudge::nudging(&self.queue, map);
        let outcome = map.await?;
        self.check()?;
        outcome.map_err(|error| OpsError::DeviceLost {
            reason: error.to_string(),
        })?;
        let bytes_read = match buffer.get_mapped_range(0..bytes) {
            Ok(view) => view.to_vec(),
            Err(error) => {
                return Err(OpsError::DeviceLost {
                    reason: error.to_string(),
                });
            }
        };
        buffer.unmap();
        Ok(bytes_read)
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

/// A map that was asked for.
#[derive(Default)]
pub(crate) struct Mapping {
    outcome: Arc<Mutex<Option<MapOutcome>>>,
}

/// Resolves when the map's callback ran or the device was lost.
struct Mapped<'d> {
    device: &'d Device,
    outcome: Arc<Mutex<Option<MapOutcome>>>,
}

impl Future for Mapped<'_> {
    type Output = Result<MapOutcome, OpsError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The waker goes in first: a callback between the two looks would otherwise be missed.
        lock(&self.device.fault).waker = Some(cx.waker().clone());
        let outcome = self
            .outcome
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        if let Some(outcome) = outcome {
            return Poll::Ready(Ok(outcome));
        }
        match &lock(&self.device.fault).lost {
            Some(reason) => Poll::Ready(Err(OpsError::DeviceLost {
                reason: reason.clone(),
            })),
            None => Poll::Pending,
        }
    }
}
