// Slot `quant`: reads one block of 32 weights of one output. Device layout: [groups, units, QUANT_VEC4S, 8 lanes].
@group(0) @binding(3) var<storage, read> quants: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

struct Block {
#repeat v 8
  q{v}: vec4<u32>, // four weights
#end
}

fn load_block(index: u32, lane: u32) -> Block {
  return Block(
#repeat v 8
    quants[(index * 8u + {v}u) * 8u + lane],
#end
  );
}
#repeat j 8
fn weights_{j}(block: Block) -> vec4<f32> {
  return bitcast<vec4<f32>>(block.q{j});
}
#end
