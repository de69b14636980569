//! [`LoadContext`]: from a file to the ops.

use std::cell::RefCell;

use foretoken_core::{
    Format, MatrixLayout, MatrixPart, ModelConfig, Ops, OpsError, Quantize, ROW_GROUP,
};
use foretoken_weights::{
    ByteSource, DEFAULT_BLOCK_BYTES, Gguf, RowBlocks, TensorConvention, TensorInfo, WeightsError,
    read_vector_f32,
};

use crate::{LoadOptions, ModelsError, context_length::context_length};

/// Bytes handed to the ops between two waits: what a load may hold in host memory beyond its own buffer.
const FLUSH_BYTES: u64 = 64 << 20;

/// What an architecture loads from and to.
pub(crate) struct LoadContext<'a, O, S: ?Sized> {
    pub(crate) ops: &'a mut O,
    pub(crate) gguf: &'a Gguf,
    pub(crate) options: LoadOptions,
    /// Absent where loading is only planned: everything is allocated and no weight is read.
    source: Option<&'a S>,
    total: u64,
    loaded: u64,
    since_flush: u64,
    progress: &'a mut dyn FnMut(u64, u64),
    /// The names of the tensors that were asked for.
    used: RefCell<Vec<&'a str>>,
}

impl<'a, O: Ops, S: ByteSource + ?Sized> LoadContext<'a, O, S> {
    /// Without a `source`, loading is only planned. `total` is what `progress` reports as the whole.
    pub(crate) fn new(
        ops: &'a mut O,
        gguf: &'a Gguf,
        source: Option<&'a S>,
        options: LoadOptions,
        total: u64,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Self {
        Self {
            ops,
            gguf,
            options,
            source,
            total,
            loaded: 0,
            since_flush: 0,
            progress,
            used: RefCell::default(),
        }
    }

    /// Whether the file has a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.gguf.tensor(name).is_some()
    }

    /// The tensor `name`, which is a part of the model.
    fn tensor(&self, name: &str) -> Result<&'a TensorInfo, WeightsError> {
        let tensor = self.gguf.required_tensor(name)?;
        self.used.borrow_mut().push(&tensor.name);
        Ok(tensor)
    }

    /// Describes the matrix `name`, which must be `[rows, cols]`, in the format that it is loaded in.
    pub(crate) fn part(&self, name: &str, rows: u32, cols: u32) -> Result<MatrixPart, ModelsError> {
        let tensor = self.tensor(name)?;
        let stored = tensor.format()?;
        let format = match self.options.quantize {
            Some(quantize) => quantize.format(tensor, stored),
            None => stored,
        };
        check_shape(tensor, &[u64::from(cols), u64::from(rows)])?;
        if format.row_bytes(u64::from(cols)).is_none() {
            return Err(ModelsError::TensorShape {
                tensor: name.to_owned(),
                expected: format!(
                    "of rows that are a multiple of {} for {}",
                    format.block_len(),
                    format.name()
                ),
                found: tensor.shape_text(),
            });
        }
        Ok(MatrixPart {
            name: name.to_owned(),
            format,
            rows,
            cols,
        })
    }

    /// Loads `parts` as one matrix.
    pub(crate) async fn matrix(
        &mut self,
        parts: &[MatrixPart],
        layout: MatrixLayout,
    ) -> Result<O::Matrix, ModelsError> {
        let mut matrix = self.ops.matrix(parts, layout)?;
        let Some(source) = self.source else {
            return Ok(matrix);
        };
        for (index, part) in parts.iter().enumerate() {
            let tensor = self.gguf.required_tensor(&part.name)?;
            let mut blocks = RowBlocks::new(source, tensor, DEFAULT_BLOCK_BYTES, ROW_GROUP)?;
            let mut quantized = Quantized::new(tensor.format()?, part);
            while let Some(block) = blocks.next().await? {
                let first_row =
                    u32::try_from(block.first_row).expect("`part` held the rows against a u32");
                let bytes = quantized.rows(block.bytes);
                self.ops.write_rows(&mut matrix, index, first_row, bytes)?;
                let bytes = block.bytes.len() as u64;
                self.advance(bytes).await?;
            }
        }
        Ok(matrix)
    }

    /// Loads the plain matrix `name`, `[rows, cols]`.
    pub(crate) async fn plain_matrix(
        &mut self,
        part: &MatrixPart,
    ) -> Result<O::Matrix, ModelsError> {
        self.matrix(std::slice::from_ref(part), MatrixLayout::Stacked)
            .await
    }

    /// Reads the vector `name`, which must be `[len]`.
    pub(crate) async fn values(&mut self, name: &str, len: u32) -> Result<Vec<f32>, ModelsError> {
        let tensor = self.tensor(name)?;
        check_shape(tensor, &[u64::from(len)])?;
        let Some(source) = self.source else {
            // What any vector may hold; no byte of the file vouches for its length.
            let mut values = Vec::new();
            let needed = u64::from(len) * 4;
            if values.try_reserve_exact(len as usize).is_err() {
                return Err(OpsError::OutOfMemory {
                    what: name.to_owned(),
                    needed,
                    available: "less than that in host memory".to_owned(),
                }
                .into());
            }
            values.resize(len as usize, 1.0);
            return Ok(values);
        };
        let values = read_vector_f32(source, tensor).await?;
        self.advance(tensor.bytes).await?;
        Ok(values)
    }

    /// Loads the weights of the norm `name`, `[len]`, with `offset` added to each.
    pub(crate) async fn norm(
        &mut self,
        name: &str,
        len: u32,
        offset: f32,
    ) -> Result<O::Vector, ModelsError> {
        let values = self.norm_values(name, len, offset).await?;
        Ok(self.ops.vector(name, &values)?)
    }

    /// Reads what [`LoadContext::norm`] loads.
    pub(crate) async fn norm_values(
        &mut self,
        name: &str,
        len: u32,
        offset: f32,
    ) -> Result<Vec<f32>, ModelsError> {
        let mut values = self.values(name, len).await?;
        for value in &mut values {
            *value += offset;
        }
        Ok(values)
    }

    /// Positions that the KV cache gets.
    pub(crate) fn context_length(&self, config: &ModelConfig) -> Result<u32, ModelsError> {
        context_length(self.options.context_length, config.max_position_embeddings)
    }

    /// Waits for the last uploads and reports the whole as loaded. Fails where there is a tensor that nobody asked for: what a model is
    /// saved with it is also computed with.
    pub(crate) async fn finish(&mut self) -> Result<(), ModelsError> {
        self.refuse_unused()?;
        if self.source.is_none() {
            return Ok(());
        }
        self.ops.flush().await?;
        (self.progress)(self.total, self.total);
        Ok(())
    }

    fn refuse_unused(&self) -> Result<(), ModelsError> {
        let mut used = self.used.borrow_mut();
        used.sort_unstable();
        // A folder's reader has left out what is not for text.
        let may_be_left =
            |name: &str| self.gguf.convention == TensorConvention::Gguf && is_not_for_text(name);
        let is_unused = |tensor: &&TensorInfo| {
            used.binary_search(&&*tensor.name).is_err() && !may_be_left(&tensor.name)
        };
        match self.gguf.tensors.iter().find(is_unused) {
            None => Ok(()),
            Some(tensor) => Err(ModelsError::UnusedTensor {
                tensor: tensor
                    .name
                    .chars()
                    .take(96)
                    .flat_map(char::escape_debug)
                    .collect(),
                architecture: self
                    .gguf
                    .metadata
                    .required_str("general.architecture")?
                    .to_owned(),
            }),
        }
    }

    async fn advance(&mut self, bytes: u64) -> Result<(), ModelsError> {
        self.loaded += bytes;
        self.since_flush += bytes;
        if self.since_flush >= FLUSH_BYTES {
            self.since_flush = 0;
            self.ops.flush().await?;
        }
        (self.progress)(self.loaded, self.total);
        Ok(())
    }
}

/// Whether a GGUF file's tensor changes nothing that is computed from tokens: the frequencies of RoPE, which are computed anyway, as old
/// converters kept them; and the encoder of images and its projection, which some publishers put into the same file.
pub fn is_not_for_text(name: &str) -> bool {
    name.starts_with("v.")
        || name.starts_with("mm.")
        || (name.starts_with("blk.") && name.ends_with(".attn_rot_embd.weight"))
}

/// Compares a tensor's shape with `expected`, columns first; dimensions of 1 at the end do not count.
fn check_shape(tensor: &TensorInfo, expected: &[u64]) -> Result<(), ModelsError> {
    fn trim(mut shape: &[u64]) -> &[u64] {
        while let [rest @ .., 1] = shape {
            shape = rest;
        }
        shape
    }
    if trim(&tensor.shape) == trim(expected) {
        return Ok(());
    }
    let text: Vec<String> = expected.iter().map(u64::to_string).collect();
    Err(ModelsError::TensorShape {
        tensor: tensor.name.to_string(),
        expected: text.join(" x "),
        found: tensor.shape_text(),
    })
}

/// Rows on their way from the file's format to the one they are loaded in.
struct Quantized {
    stored: Format,
    /// What encodes them; `None` where the formats are the same.
    quantize: Option<Quantize>,
    /// A row's weights.
    row: Vec<f32>,
    /// A block of rows.
    bytes: Vec<u8>,
}

impl Quantized {
    /// Of rows of `part`, which the file has as `stored`.
    fn new(stored: Format, part: &MatrixPart) -> Self {
        let quantize = match stored == part.format {
            true => None,
            false => part.format.quantize(),
        };
        let len = quantize.map_or(0, |_| part.cols);
        Self {
            stored,
            quantize,
            row: vec![0.0; len as usize],
            bytes: Vec::new(),
        }
    }

    /// Whole rows as they are written.
    fn rows<'b>(&'b mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(quantize) = self.quantize else {
            return bytes;
        };
        self.bytes.clear();
        let stored = self.stored;
        let row_bytes = self.row.len() / stored.block_len() * stored.block_bytes();
        for row in bytes.chunks_exact(row_bytes) {
            stored.dequantize(row, &mut self.row);
            quantize(&self.row, &mut self.bytes);
        }
        &self.bytes
    }
}
