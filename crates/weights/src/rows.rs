//! Weights, streamed: [`RowBlocks`] and [`read_vector_f32`].

use crate::{ByteSource, TensorInfo, WeightsError};

/// A good size for [`RowBlocks::new`]: large enough for a network, small beside a model.
pub const DEFAULT_BLOCK_BYTES: u64 = 4 << 20;

/// Some whole rows of a tensor.
#[derive(Debug, Clone, Copy)]
pub struct RowBlock<'a> {
    /// The first of them; a multiple of the row multiple.
    pub first_row: u64,
    /// Their bytes as in the file, row after row.
    pub bytes: &'a [u8],
}

/// A tensor's rows in blocks, through one buffer: as much of it is in memory as one block.
///
/// ```no_run
/// # async fn load(source: &impl foretoken_weights::ByteSource, tensor: &foretoken_weights::TensorInfo)
/// # -> Result<(), foretoken_weights::WeightsError> {
/// use foretoken_weights::{DEFAULT_BLOCK_BYTES, RowBlocks};
/// let mut blocks = RowBlocks::new(source, tensor, DEFAULT_BLOCK_BYTES, 8)?;
/// while let Some(block) = blocks.next().await? {
///     println!("{} bytes from row {} on", block.bytes.len(), block.first_row);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RowBlocks<'a, S: ?Sized> {
    source: &'a S,
    tensor: &'a TensorInfo,
    row_bytes: u64,
    rows_per_block: u64,
    next_row: u64,
    buffer: Vec<u8>,
}

impl<'a, S: ByteSource + ?Sized> RowBlocks<'a, S> {
    /// Blocks of at most `max_bytes`, but at least `row_multiple` rows; the number of rows of every block is a
    /// multiple of `row_multiple`, unless it is the last. Fails if this build does not read the tensor's format.
    pub fn new(
        source: &'a S,
        tensor: &'a TensorInfo,
        max_bytes: u64,
        row_multiple: u32,
    ) -> Result<Self, WeightsError> {
        let row_bytes = tensor
            .format()?
            .row_bytes(tensor.cols())
            .ok_or_else(|| shape_error(tensor, "rows of whole blocks"))?;
        let multiple = u64::from(row_multiple.max(1));
        let group_bytes = row_bytes.saturating_mul(multiple);
        let groups = (max_bytes / group_bytes.max(1)).max(1);
        Ok(Self {
            source,
            tensor,
            row_bytes,
            rows_per_block: groups.saturating_mul(multiple),
            next_row: 0,
            buffer: Vec::new(),
        })
    }

    /// The next block, or `None` after the last.
    pub async fn next(&mut self) -> Result<Option<RowBlock<'_>>, WeightsError> {
        let first_row = self.next_row;
        let rows = self
            .rows_per_block
            .min(self.tensor.rows().saturating_sub(first_row));
        if rows == 0 {
            return Ok(None);
        }
        let in_tensor = |rows: u64| {
            rows.checked_mul(self.row_bytes)
                .filter(|bytes| *bytes <= self.tensor.bytes)
                .ok_or_else(|| shape_error(self.tensor, "no larger than its bytes"))
        };
        let skipped = in_tensor(first_row)?;
        let bytes = in_tensor(first_row + rows)? - skipped;
        resize(&mut self.buffer, bytes, self.source, self.tensor)?;
        let offset = self.tensor.offset.saturating_add(skipped);
        self.source.read(offset, &mut self.buffer).await?;
        self.next_row = first_row + rows;
        Ok(Some(RowBlock {
            first_row,
            bytes: &self.buffer,
        }))
    }
}

/// All values of a vector, a tensor of one dimension, of any format this build reads.
pub async fn read_vector_f32<S: ByteSource + ?Sized>(
    source: &S,
    tensor: &TensorInfo,
) -> Result<Vec<f32>, WeightsError> {
    let format = tensor.format()?;
    let (&[len], Some(row_bytes)) = (&*tensor.shape, format.row_bytes(tensor.cols())) else {
        return Err(shape_error(tensor, "a vector (one dimension)"));
    };
    if row_bytes != tensor.bytes {
        return Err(shape_error(tensor, "as large as its bytes"));
    }
    let mut bytes = Vec::new();
    resize(&mut bytes, tensor.bytes, source, tensor)?;
    source.read(tensor.offset, &mut bytes).await?;
    let mut values = Vec::new();
    resize(&mut values, len, source, tensor)?;
    format.dequantize(&bytes, &mut values);
    Ok(values)
}

/// Makes a buffer `len` elements long, or fails where there is no memory for it.
fn resize<T: Clone + Default, S: ByteSource + ?Sized>(
    buffer: &mut Vec<T>,
    len: u64,
    source: &S,
    tensor: &TensorInfo,
) -> Result<(), WeightsError> {
    let out_of_memory = || WeightsError::OutOfMemory {
        file: source.name().to_owned(),
        place: format!("tensor `{}`", tensor.name),
        bytes: len.saturating_mul(size_of::<T>() as u64),
    };
    let len = usize::try_from(len).map_err(|_| out_of_memory())?;
    buffer
        .try_reserve_exact(len.saturating_sub(buffer.len()))
        .map_err(|_| out_of_memory())?;
    buffer.resize(len, T::default());
    Ok(())
}

fn shape_error(tensor: &TensorInfo, expected: &str) -> WeightsError {
    WeightsError::TensorShape {
        tensor: tensor.name.to_string(),
        expected: expected.to_owned(),
        found: tensor.shape_text(),
    }
}
