/** ONNX constants: element types, and versions that every current runtime supports. */
const FLOAT = 1
const INT64 = 7
const IR_VERSION = 8
const OPSET = 17

interface Lookup {
  rows: number
  width: number
  vectors: Float32Array
}

/** Returns an ONNX file with one operation, which looks up the vector of each token in a table. */
export function writeLookup({ rows, width, vectors }: Lookup): Buffer {
  const table = message(
    number(1, rows),
    number(1, width),
    number(2, FLOAT),
    text(8, 'table'),
    bytes(9, Buffer.from(vectors.buffer, vectors.byteOffset, vectors.byteLength)),
  )
  const gather = message(
    text(1, 'table'),
    text(1, 'input_ids'),
    text(2, 'last_hidden_state'),
    text(4, 'Gather'),
  )
  const graph = message(
    bytes(1, gather),
    text(2, 'lookup'),
    bytes(5, table),
    bytes(11, tensor('input_ids', INT64, ['texts', 'tokens'])),
    bytes(12, tensor('last_hidden_state', FLOAT, ['texts', 'tokens', width])),
  )
  return message(number(1, IR_VERSION), bytes(7, graph), bytes(8, message(number(2, OPSET))))
}

/** Describes an input or output; a named dimension may have any size. */
function tensor(name: string, kind: number, sizes: readonly (string | number)[]): Buffer {
  const shape = sizes.map((size) =>
    bytes(1, message(typeof size === 'string' ? text(2, size) : number(1, size))),
  )
  const type = message(bytes(1, message(number(1, kind), bytes(2, message(...shape)))))
  return message(text(1, name), bytes(2, type))
}

// ONNX files are protocol buffer messages: numbered fields that hold either an integer or bytes.
const VARINT = 0
const BYTES = 2

const message = (...fields: readonly Buffer[]): Buffer => Buffer.concat(fields)
const number = (field: number, value: number): Buffer =>
  Buffer.concat([varint((field << 3) | VARINT), varint(value)])
const bytes = (field: number, value: Buffer): Buffer =>
  Buffer.concat([varint((field << 3) | BYTES), varint(value.length), value])
const text = (field: number, value: string): Buffer => bytes(field, Buffer.from(value))

function varint(value: number): Buffer {
  const parts: number[] = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...parts, rest])
    parts.push((rest % 128) | 128)
  }
}
