// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
// Quants stand in the top byte of a word, 2^24 times too large, and the scale takes the 2^-24: exact, and a shift less each.
@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

struct Block {
#repeat v 2
  q{v}: vec4<u32>, // four signed bytes a word, in order
#end
  scale: f32,      // d * 2^-24
}

fn load_block(index: u32, lane: u32) -> Block {
  return Block(
#repeat v 2
    quants[(index * 2u + {v}u) * 8u + lane],
#end
    unpack2x16float(scales[index * 8u + lane]).x * 0x1p-24,
  );
}
#repeat j 8
fn weights_{j}(block: Block) -> vec4<f32> {
  let word = bitcast<i32>(block.q{j/4}[{j%4}]);
  let q = vec4<i32>(word << 24u, word << 16u, word << 8u, word) & vec4<i32>(-0x1000000);
  return vec4<f32>(q) * block.scale;
}
#end
