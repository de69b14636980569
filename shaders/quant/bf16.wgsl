// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

struct Block {
#repeat v 4
  q{v}: vec4<u32>, // two weights a word, low half first: the upper halves of two f32
#end
}

fn load_block(index: u32, lane: u32) -> Block {
  return Block(
#repeat v 4
    quants[(index * 4u + {v}u) * 8u + lane],
#end
  );
}
#repeat j 8
fn weights_{j}(block: Block) -> vec4<f32> {
  let low = block.q{j/2}[{j%2*2}];
  let high = block.q{j/2}[{j%2*2+1}];
  return bitcast<vec4<f32>>(vec4<u32>(low << 16u, low & 0xffff0000u, high << 16u, high & 0xffff0000u));
}
#end
