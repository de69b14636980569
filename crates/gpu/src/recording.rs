//! The recording layer: buffers, pipelines, bind groups and the list of dispatches of a step.
//!
//! Everything a dispatch needs is found in a table and made only the first time, so that a step which was run
//! once before creates nothing. [`Counters`] hold that to account.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use bytemuck::cast_slice;
use foretoken_core::{Clock, OpsError};

use crate::composer::{Composed, Overrides, Recipe, Target, compose};
use crate::counters::Counters;
use crate::device::Device;
use crate::planned::Plan;

/// How a kernel uses a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// At most [`UNIFORM_BYTES`], from the buffer's offset on.
    Uniform,
    Read,
    Write,
}

/// What every device binds as a uniform buffer.
pub(crate) const UNIFORM_BYTES: u64 = 64 << 10;

/// Identity of a kernel: two equal values are one pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kernel {
    /// The op's file below `shaders/`.
    pub file: &'static str,
    pub slots: Slots,
    pub constants: Constants,
    /// Bindings 2, 3 … (0 is the row table, 1 the parameters).
    pub bindings: &'static [Access],
    pub f16: bool,
    /// Lanes that a subgroup needs at least; 0 without subgroup operations.
    pub lanes: u32,
}

/// Slots of a kernel at most, and constants.
const MAX_SLOTS: usize = 7;
const MAX_CONSTANTS: usize = 7;

/// The slots of a kernel: slot → file.
pub(crate) type Slots = [(&'static str, &'static str); MAX_SLOTS];
/// The constants of a kernel.
pub(crate) type Constants = [(&'static str, u32); MAX_CONSTANTS];

/// Slots of a kernel that has `N`; the others are unused.
pub(crate) const fn slots<const N: usize>(given: [(&'static str, &'static str); N]) -> Slots {
    let mut all = [("", ""); MAX_SLOTS];
    let mut i = 0;
    while i < N {
        all[i] = given[i];
        i += 1;
    }
    all
}

/// Constants of a kernel that has `N`; the others are unused.
pub(crate) const fn constants<const N: usize>(given: [(&'static str, u32); N]) -> Constants {
    let mut all = [("", 0); MAX_CONSTANTS];
    let mut i = 0;
    while i < N {
        all[i] = given[i];
        i += 1;
    }
    all
}

impl Kernel {
    pub(crate) const fn new(file: &'static str, bindings: &'static [Access]) -> Self {
        Self {
            file,
            slots: slots([]),
            constants: constants([]),
            bindings,
            f16: false,
            lanes: 0,
        }
    }

    /// `matmul[q4_1,…,R=2,C=4]`: what the profiler and errors call it.
    pub(crate) fn label(&self) -> String {
        let stem = |path: &'static str| {
            path.rsplit('/')
                .next()
                .unwrap_or(path)
                .trim_end_matches(".wgsl")
        };
        let mut parts: Vec<String> = self
            .slots
            .iter()
            .filter(|(slot, _)| !slot.is_empty() && !slot.ends_with("_arguments"))
            .map(|(_, path)| stem(path).to_owned())
            .collect();
        parts.extend(
            self.constants
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, v)| format!("{name}={v}")),
        );
        format!("{}[{}]", stem(self.file), parts.join(","))
    }

    /// The kernel's text for a target.
    pub(crate) fn compose(&self, target: Target, overrides: &Overrides) -> Composed {
        let slots: Vec<_> = self
            .slots
            .into_iter()
            .filter(|(slot, _)| !slot.is_empty())
            .collect();
        let constants: Vec<_> = self
            .constants
            .into_iter()
            .filter(|(name, _)| !name.is_empty())
            .collect();
        let recipe = Recipe {
            file: self.file,
            slots: &slots,
            constants: &constants,
            f16: self.f16,
            subgroups: self.lanes > 0,
        };
        compose(&recipe, target, overrides)
    }
}

/// A device buffer with an identity for the bind-group table.
#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    pub(crate) id: u32,
    pub(crate) raw: wgpu::Buffer,
    /// Where a uniform binding begins; the parameters of a dispatch tell such bindings apart.
    pub(crate) offset: u64,
}

/// Parameters of one dispatch, as the op's `Params` declares them.
pub(crate) type Params = [u32; 8];

#[derive(PartialEq, Eq, Hash)]
struct BindKey {
    pipeline: usize,
    params: Params,
    buffers: [u32; 6],
}

struct Pipeline {
    raw: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

struct Dispatch {
    pipeline: usize,
    bind_group: usize,
    grid: [u32; 3],
}

/// Bytes to copy from one buffer to another.
pub(crate) struct Copy<'a> {
    pub(crate) from: (&'a wgpu::Buffer, u64),
    pub(crate) to: (&'a wgpu::Buffer, u64),
    pub(crate) bytes: u64,
}

impl<'a> Copy<'a> {
    /// From the start of one to the start of the other.
    pub(crate) fn new(from: &'a Buffer, to: &'a wgpu::Buffer, bytes: u64) -> Self {
        Self {
            from: (&from.raw, 0),
            to: (to, 0),
            bytes,
        }
    }

    fn encode(&self, encoder: &mut wgpu::CommandEncoder) {
        let ((from, from_at), (to, to_at)) = (self.from, self.to);
        encoder.copy_buffer_to_buffer(from, from_at, to, to_at, self.bytes);
    }
}

/// A copy between two dispatches: before the one at `before` of those recorded.
struct CopyBetween {
    before: usize,
    from: wgpu::Buffer,
    to: wgpu::Buffer,
    bytes: u64,
}

/// A module whose compilation messages nobody has read yet.
struct Unread {
    module: wgpu::ShaderModule,
    composed: Composed,
    label: String,
}

/// Parameter blocks in one uniform buffer. 256 bytes apart: the alignment every device accepts.
const PARAMS_STRIDE: u64 = 256;
const PARAMS_BLOCKS: u64 = 256;

/// Time of the dispatches of one kernel at one grid, each run alone and waited for: what a submission and a wait cost is
/// in it, so it ranks kernels and sizes none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProfileEntry {
    /// How many.
    pub dispatches: u64,
    /// Together.
    pub milliseconds: f64,
}

/// By kernel label and grid.
pub type Profile = BTreeMap<String, ProfileEntry>;

pub(crate) struct Recorder {
    pub(crate) gpu: Device,
    pub(crate) counters: Counters,
    pub(crate) step: Buffer,
    nothing: Buffer,
    /// What [`Recorder::flush`] maps.
    flushed: wgpu::Buffer,
    overrides: Overrides,
    pipelines: HashMap<Kernel, usize>,
    pipeline_list: Vec<Pipeline>,
    layouts: HashMap<&'static [Access], (wgpu::BindGroupLayout, wgpu::PipelineLayout)>,
    bind_groups: HashMap<BindKey, usize>,
    bind_group_list: Vec<wgpu::BindGroup>,
    params: HashMap<Params, (usize, u64)>,
    params_arenas: Vec<wgpu::Buffer>,
    pending: Vec<Dispatch>,
    copies: Vec<CopyBetween>,
    unread: Vec<Unread>,
    next_buffer: u32,
    profile: Option<Profile>,
    /// While it is on, buffers are only held against the limits, and nothing is made or written.
    pub(crate) plan: Plan,
}

/// Bytes that a flush maps: some, to have something to wait for.
const FLUSHED_BYTES: u64 = 4;

// Uniform too: matmuls may read activations so.
const STORAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::UNIFORM)
    .union(wgpu::BufferUsages::COPY_DST)
    .union(wgpu::BufferUsages::COPY_SRC);

impl Recorder {
    pub(crate) fn new(gpu: Device, overrides: Overrides, step_bytes: u64) -> Self {
        let make = |what, size, usage| gpu.create_buffer(what, size, usage, 0);
        let step = make("row table", step_bytes, STORAGE);
        let nothing = make("nothing", 16, STORAGE);
        let flushed = make(
            "flushed",
            FLUSHED_BYTES,
            wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        );
        let counters = Counters {
            buffers_created: 3,
            device_bytes: step_bytes + 16 + FLUSHED_BYTES,
            ..Counters::default()
        };
        Self {
            gpu,
            counters,
            step: Buffer {
                id: 0,
                raw: step,
                offset: 0,
            },
            nothing: Buffer {
                id: 1,
                raw: nothing,
                offset: 0,
            },
            flushed,
            overrides,
            pipelines: HashMap::new(),
            pipeline_list: Vec::new(),
            layouts: HashMap::new(),
            bind_groups: HashMap::new(),
            bind_group_list: Vec::new(),
            params: HashMap::new(),
            params_arenas: Vec::new(),
            pending: Vec::new(),
            copies: Vec::new(),
            unread: Vec::new(),
            next_buffer: 2,
            profile: None,
            plan: Plan::default(),
        }
    }

    /// Shader files that stand in for the built-in ones.
    pub(crate) fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// A binding for what a kernel declares but this variant does not use.
    pub(crate) fn nothing(&self) -> &Buffer {
        &self.nothing
    }

    /// Allocates a storage buffer, after holding its size against the device's limits.
    pub(crate) fn buffer(&mut self, what: &str, bytes: u64) -> Result<Buffer, OpsError> {
        let bytes = bytes.max(16).next_multiple_of(16);
        let limit = self
            .gpu
            .report
            .max_binding_bytes
            .min(self.gpu.report.max_buffer_bytes);
        if bytes > limit {
            return Err(OpsError::OutOfMemory {
                what: what.to_owned(),
                needed: bytes,
                available: format!("the device binds at most {limit} bytes"),
            });
        }
        let raw = if self.plan.on {
            self.plan.all = self.plan.all.saturating_add(bytes);
            self.nothing.raw.clone()
        } else {
            self.raw_buffer(what, bytes, STORAGE)
        };
        self.gpu.check()?;
        let id = self.next_buffer;
        self.next_buffer += 1;
        Ok(Buffer { id, raw, offset: 0 })
    }

    /// A buffer the host maps for reading.
    pub(crate) fn readback_buffer(&mut self, bytes: u64) -> wgpu::Buffer {
        self.raw_buffer(
            "read-back",
            bytes,
            wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        )
    }

    fn raw_buffer(&mut self, label: &str, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let held = self.counters.device_bytes;
        self.counters.buffers_created += 1;
        self.counters.device_bytes += size;
        self.counters.largest_buffer_bytes = self.counters.largest_buffer_bytes.max(size);
        self.gpu.create_buffer(label, size, usage, held)
    }

    /// Uploads bytes (a multiple of four of them).
    pub(crate) fn write(&mut self, buffer: &Buffer, offset: u64, bytes: &[u8]) {
        if self.plan.on {
            return;
        }
        self.counters.write_buffers += 1;
        self.counters.written_bytes += bytes.len() as u64;
        self.gpu.queue.write_buffer(&buffer.raw, offset, bytes);
    }

    /// Records one dispatch. `buffers` fill bindings 2, 3 … in the order of the kernel's `bindings`.
    pub(crate) fn dispatch(
        &mut self,
        kernel: &Kernel,
        params: Params,
        buffers: &[&Buffer],
        grid: [u32; 3],
    ) {
        assert_eq!(
            buffers.len(),
            kernel.bindings.len(),
            "{}: bindings",
            kernel.label()
        );
        assert!(
            grid.iter().all(|n| *n <= 65_535),
            "{}: grid {grid:?} exceeds 65,535 workgroups",
            kernel.label()
        );
        if grid.contains(&0) {
            return;
        }
        let pipeline = self.pipeline(kernel);
        let mut key = BindKey {
            pipeline,
            params,
            buffers: [u32::MAX; 6],
        };
        for (slot, buffer) in key.buffers.iter_mut().zip(buffers) {
            *slot = buffer.id;
        }
        let bind_group = match self.bind_groups.get(&key) {
            Some(index) => *index,
            None => self.bind(key, kernel.bindings, buffers),
        };
        self.pending.push(Dispatch {
            pipeline,
            bind_group,
            grid,
        });
    }

    /// Records a copy of the first `bytes` of a buffer to the start of another.
    pub(crate) fn copy(&mut self, from: wgpu::Buffer, to: wgpu::Buffer, bytes: u64) {
        self.copies.push(CopyBetween {
            before: self.pending.len(),
            from,
            to,
            bytes,
        });
    }

    fn bind(&mut self, key: BindKey, bindings: &[Access], buffers: &[&Buffer]) -> usize {
        let (arena, offset) = self.params_at(key.params);
        let mut entries = vec![
            wgpu::BindGroupEntry {
                binding: 0,
                resource: self.step.raw.as_entire_binding(),
            },
            wgpu::BindGroupEntry {
                binding: 1,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &self.params_arenas[arena],
                    offset,
                    size: wgpu::BufferSize::new(size_of::<Params>() as u64),
                }),
            },
        ];
        entries.extend((2..).zip(bindings.iter().zip(buffers)).map(
            |(binding, (access, buffer))| wgpu::BindGroupEntry {
                binding,
                resource: match access {
                    Access::Uniform => wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                        buffer: &buffer.raw,
                        offset: buffer.offset,
                        size: wgpu::BufferSize::new(UNIFORM_BYTES),
                    }),
                    Access::Read | Access::Write => buffer.raw.as_entire_binding(),
                },
            },
        ));
        let group = self
            .gpu
            .device
            .create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &self.pipeline_list[key.pipeline].layout,
                entries: &entries,
            });
        self.counters.bind_groups_created += 1;
        let index = self.bind_group_list.len();
        self.bind_group_list.push(group);
        self.bind_groups.insert(key, index);
        index
    }

    /// Drops every bind group: they hold their buffers, and those of a model that was dropped are nobody's. The others are made again
    /// when they are needed. Nothing may be recorded.
    pub(crate) fn forget_bind_groups(&mut self) {
        assert!(self.pending.is_empty(), "dispatches have their bind groups");
        self.bind_groups.clear();
        self.bind_group_list.clear();
    }

    fn params_at(&mut self, params: Params) -> (usize, u64) {
        if let Some(place) = self.params.get(&params) {
            return *place;
        }
        let index = self.params.len() as u64;
        let arena = usize::try_from(index / PARAMS_BLOCKS).expect("few parameter blocks");
        if arena == self.params_arenas.len() {
            let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
            let buffer = self.raw_buffer("parameters", PARAMS_STRIDE * PARAMS_BLOCKS, usage);
            self.params_arenas.push(buffer);
        }
        let offset = index % PARAMS_BLOCKS * PARAMS_STRIDE;
        self.counters.write_buffers += 1;
        self.counters.written_bytes += size_of::<Params>() as u64;
        self.gpu
            .queue
            .write_buffer(&self.params_arenas[arena], offset, cast_slice(&params));
        self.params.insert(params, (arena, offset));
        (arena, offset)
    }

    /// Makes a kernel's pipeline and waits for what the driver says of it.
    pub(crate) async fn compile(&mut self, kernel: &Kernel) -> Result<(), OpsError> {
        self.pipeline(kernel);
        self.flush().await
    }

    fn pipeline(&mut self, kernel: &Kernel) -> usize {
        if let Some(index) = self.pipelines.get(kernel) {
            return *index;
        }
        self.gpu.compiles();
        let composed = kernel.compose(Target::here(), &self.overrides);
        let label = kernel.label();
        let module = shader_module(&self.gpu.device, &label, &composed.source);
        let (layout, pipeline_layout) = self.layout(kernel.bindings);
        let raw = self
            .gpu
            .device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&label),
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: None,
            });
        self.counters.pipelines_created += 1;
        self.unread.push(Unread {
            module,
            composed,
            label,
        });
        let index = self.pipeline_list.len();
        self.pipeline_list.push(Pipeline { raw, layout });
        self.pipelines.insert(*kernel, index);
        index
    }

    fn layout(
        &mut self,
        bindings: &'static [Access],
    ) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
        let device = &self.gpu.device;
        let make = || {
            let all = [Access::Uniform, Access::Uniform];
            let entries: Vec<_> = (0..)
                .zip(all.iter().chain(bindings))
                .map(|(binding, access)| wgpu::BindGroupLayoutEntry {
                    binding,
                    visibility: wgpu::ShaderStages::COMPUTE,
                    ty: wgpu::BindingType::Buffer {
                        ty: match access {
                            Access::Uniform => wgpu::BufferBindingType::Uniform,
                            Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
                            Access::Write => wgpu::BufferBindingType::Storage { read_only: false },
                        },
                        has_dynamic_offset: false,
                        min_binding_size: None,
                    },
                    count: None,
                })
                .collect();
            let group = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: None,
                entries: &entries,
            });
            let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&group)],
                immediate_size: 0,
            });
            (group, pipeline)
        };
        self.layouts.entry(bindings).or_insert_with(make).clone()
    }

    /// Every pipeline made so far, for `--dump-shaders` and the compile tests.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.pipelines.keys()
    }

    /// Starts (or stops) timing every dispatch by itself.
    pub(crate) fn set_profiling(&mut self, on: bool) {
        self.profile = on.then(Profile::default);
    }

    /// What the dispatches since [`Recorder::set_profiling`] took.
    pub(crate) fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    /// Runs every recorded dispatch in a submission of its own and waits for it: slow, and counted nowhere.
    fn submit_profiled(&mut self) -> Result<(), OpsError> {
        let labels: HashMap<usize, String> = self
            .pipelines
            .iter()
            .map(|(kernel, index)| (*index, kernel.label()))
            .collect();
        let copies = std::mem::take(&mut self.copies);
        let pending = std::mem::take(&mut self.pending);
        for (i, dispatch) in pending.iter().enumerate() {
            for copy in copies.iter().filter(|copy| copy.before == i) {
                let mut encoder = self.encoder();
                encoder.copy_buffer_to_buffer(&copy.from, 0, &copy.to, 0, copy.bytes);
                self.gpu.queue.submit([encoder.finish()]);
            }
            let mut encoder = self.encoder();
            self.encode_pass(std::slice::from_ref(dispatch), &mut encoder);
            let clock = Clock::start();
            self.gpu.queue.submit([encoder.finish()]);
            self.gpu.wait()?;
            let profile = self.profile.get_or_insert_default();
            let label = format!("{} {:?}", labels[&dispatch.pipeline], dispatch.grid);
            let entry = profile.entry(label).or_default();
            entry.dispatches += 1;
            entry.milliseconds += clock.elapsed_ms();
        }
        Ok(())
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    /// Drops what was recorded.
    pub(crate) fn discard(&mut self) {
        self.pending.clear();
        self.copies.clear();
    }

    /// Submits what was recorded, in `pieces` submissions, with copies after the last. Returns the last.
    pub(crate) fn submit(
        &mut self,
        pieces: usize,
        after: &[Copy<'_>],
    ) -> Result<wgpu::SubmissionIndex, OpsError> {
        if self.profile.is_some() {
            self.submit_profiled()?;
        }
        let size = self.pending.len().div_ceil(pieces).max(1);
        let mut from = 0;
        let submission = loop {
            let to = self.pending.len().min(from + size);
            let mut encoder = self.encoder();
            self.counters.passes += self.encode(from..to, &mut encoder);
            let last = to == self.pending.len();
            if last {
                for copy in after {
                    copy.encode(&mut encoder);
                }
            }
            let submission = self.gpu.queue.submit([encoder.finish()]);
            self.counters.submits += 1;
            if last {
                break submission;
            }
            from = to;
        };
        self.counters.dispatches += self.pending.len() as u64;
        self.discard();
        // A module that does not compile is reported by its author's line, at the next wait.
        if self.unread.is_empty() {
            self.gpu.check()?;
        }
        Ok(submission)
    }

    /// Some of the recorded dispatches, with the copies between them: a compute pass each time. Returns how many.
    fn encode(&self, range: Range<usize>, encoder: &mut wgpu::CommandEncoder) -> u64 {
        let mut passes = 0;
        let mut from = range.start;
        let inside = |copy: &&CopyBetween| range.contains(&copy.before);
        for copy in self.copies.iter().filter(inside) {
            if copy.before > from {
                self.encode_pass(&self.pending[from..copy.before], encoder);
                passes += 1;
                from = copy.before;
            }
            encoder.copy_buffer_to_buffer(&copy.from, 0, &copy.to, 0, copy.bytes);
        }
        self.encode_pass(&self.pending[from..range.end], encoder);
        passes + 1
    }

    /// One compute pass.
    fn encode_pass(&self, dispatches: &[Dispatch], encoder: &mut wgpu::CommandEncoder) {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        let mut current = usize::MAX;
        for dispatch in dispatches {
            if dispatch.pipeline != current {
                pass.set_pipeline(&self.pipeline_list[dispatch.pipeline].raw);
                current = dispatch.pipeline;
            }
            pass.set_bind_group(0, &self.bind_group_list[dispatch.bind_group], &[]);
            let [x, y, z] = dispatch.grid;
            pass.dispatch_workgroups(x, y, z);
        }
    }

    /// Counts a wait that maps `bytes`.
    pub(crate) fn count_wait(&mut self, bytes: u64) {
        self.counters.syncs += 1;
        self.counters.mapped_bytes += bytes;
    }

    /// Waits for a read-back buffer and returns its words.
    pub(crate) async fn read(
        &mut self,
        buffer: &wgpu::Buffer,
        bytes: u64,
    ) -> Result<Vec<u32>, OpsError> {
        self.made().await?;
        self.count_wait(bytes);
        let bytes = self.gpu.read(buffer, bytes).await?;
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    }

    /// Copies a whole buffer to the host.
    pub(crate) async fn read_buffer(
        &mut self,
        buffer: &Buffer,
        bytes: u64,
    ) -> Result<Vec<u32>, OpsError> {
        self.made().await?;
        let staging = self.readback_buffer(bytes);
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(&buffer.raw, 0, &staging, 0, bytes);
        self.gpu.queue.submit([encoder.finish()]);
        self.counters.submits += 1;
        self.counters.syncs += 1;
        self.counters.mapped_bytes += bytes;
        let read = self.gpu.read(&staging, bytes).await?;
        self.counters.device_bytes -= bytes;
        Ok(bytemuck::pod_collect_to_vec(&read))
    }

    /// Waits until everything written so far has reached the device.
    pub(crate) async fn flush(&mut self) -> Result<(), OpsError> {
        self.made().await?;
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(&self.step.raw, 0, &self.flushed, 0, FLUSHED_BYTES);
        self.gpu.queue.submit([encoder.finish()]);
        self.counters.submits += 1;
        self.count_wait(FLUSHED_BYTES);
        let flushed = self.flushed.clone();
        self.gpu.read(&flushed, FLUSHED_BYTES).await.map(|_| ())
    }

    /// Waits for what is known only later of all that was made: a buffer that there was no memory for, and a module's
    /// compilation errors, turned into ones that name the author's file and line.
    pub(crate) async fn made(&mut self) -> Result<(), OpsError> {
        self.gpu.settle().await?;
        for Unread {
            module,
            composed,
            label,
        } in std::mem::take(&mut self.unread)
        {
            let info = self.gpu.answered(module.get_compilation_info()).await?;
            let error = info
                .messages
                .iter()
                .find(|m| m.message_type == wgpu::CompilationMessageType::Error);
            if let Some(message) = error {
                let line = message.location.map_or(0, |location| location.line_number);
                let text = message.message.lines().next().unwrap_or_default();
                return Err(OpsError::Kernel {
                    kernel: label,
                    reason: format!("{}: {text}", composed.origin(line)),
                });
            }
        }
        Ok(())
    }
}

/// Compiles a composed kernel without runtime checks: every index in `shaders/` is bounded by shapes and tokens that
/// were validated before recording, and naga's loop bounds and clamps cost up to 100 times in a hot loop.
#[allow(unsafe_code)]
fn shader_module(device: &wgpu::Device, label: &str, source: &str) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptor {
        label: Some(label),
        source: wgpu::ShaderSource::Wgsl(source.into()),
    };
    // SAFETY: the kernels index only what the asserted shapes and validated rows allow; loops end.
    unsafe {
        device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
    }
}
