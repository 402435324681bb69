// Packing: the values that accel.whatif.packing took apart, put together again.
function filled(structure, numbers) {
  if (Array.isArray(structure)) return structure.map((each) => filled(each, numbers));
  if (typeof structure === "string") return structure;
  if (typeof structure === "number") return numbers.next().value;
  return Object.fromEntries(Object.entries(structure).map(([name, each]) => [name, filled(each, numbers)]));
}

export function unpack({ structures, rows }) {
  return rows.map(([index, ...numbers]) => filled(structures[index], numbers.values()));
}
