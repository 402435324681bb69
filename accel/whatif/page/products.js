// Products: accel.product_model, the time of a matrix product of any shape from the shapes measured.
const NEAREST = 0.05;
const terms = (m, k, n) => [1, m * k * n, m * k, k * n, m * n];
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

// The least-squares solution of least norm, by one-sided Jacobi rotations (Hestenes, 1958).
// columns: the matrix by columns, each of unit length.
function leastSquares(columns, target) {
  const u = columns.map((column) => [...column]);
  const v = columns.map((_, i) => columns.map((_, j) => (i === j ? 1 : 0)));
  for (let sweep = 0, turned = true; turned && sweep < 60; sweep += 1) {
    turned = false;
    for (let p = 0; p < u.length - 1; p += 1) {
      for (let q = p + 1; q < u.length; q += 1) {
        const a = dot(u[p], u[p]), b = dot(u[q], u[q]), c = dot(u[p], u[q]);
        if (c === 0 || Math.abs(c) <= 1e-15 * Math.sqrt(a * b)) continue;
        turned = true;
        const zeta = (b - a) / (2 * c);
        const t = (zeta >= 0 ? 1 : -1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
        const cos = 1 / Math.sqrt(1 + t * t), sin = cos * t;
        for (const pair of [u, v]) {
          for (let i = 0; i < pair[p].length; i += 1) {
            const left = pair[p][i], right = pair[q][i];
            pair[p][i] = cos * left - sin * right;
            pair[q][i] = sin * left + cos * right;
          }
        }
      }
    }
  }
  const singular = u.map((column) => Math.sqrt(dot(column, column)));
  const smallest = Math.max(...singular) * Math.max(target.length, columns.length) * 2 ** -52;
  const solution = columns.map(() => 0);
  singular.forEach((value, j) => {
    if (value <= smallest) return;
    const share = dot(u[j], target) / (value * value);
    v[j].forEach((each, i) => (solution[i] += share * each));
  });
  return solution;
}

// By relative error; a term that wants a negative weight is dropped.
function positiveFit(rates) {
  const rows = rates.map((rate) => terms(rate.m, rate.k, rate.n).map((term) => term / rate.seconds));
  const weights = [0, 0, 0, 0, 0];
  let active = [0, 1, 2, 3, 4];
  while (active.length) {
    const columns = active.map((term) => rows.map((row) => row[term]));
    const scale = columns.map((column) => Math.sqrt(dot(column, column)));
    const unit = columns.map((column, i) => column.map((value) => value / scale[i]));
    const found = leastSquares(unit, rates.map(() => 1)).map((value, i) => value / scale[i]);
    if (found.every((value) => value >= 0)) {
      active.forEach((term, i) => (weights[term] = found[i]));
      return weights;
    }
    active = active.filter((_, i) => found[i] >= 0);
  }
  return weights;
}

export function fitProducts(rates) {
  const models = new Map();
  for (const dtype of new Set(rates.map((rate) => rate.dtype))) {
    const own = rates.filter((rate) => rate.dtype === dtype);
    const weights = positiveFit(own);
    const shapes = own.map(({ m, k, n }) => [m, k, n].map(Math.log2));
    const misses = own.map(({ m, k, n, seconds }) => Math.log(seconds / dot(terms(m, k, n), weights)));
    models.set(dtype, { weights, shapes, misses });
  }
  return models;
}

export function productSeconds(models, dtype, m, k, n) {
  if (!(m * k * n)) return 0;
  const wide = models.has("float64") && dtype === "float64" ? "float64" : [...models.keys()][0];
  const { weights, shapes, misses } = models.get(dtype) || models.get(wide);
  const at = [m, k, n].map(Math.log2);
  const near = shapes.map((shape) => 1 / (shape.reduce((sum, each, i) => sum + (each - at[i]) ** 2, 0) + NEAREST));
  const missed = dot(near, misses) / near.reduce((sum, each) => sum + each, 0);
  return dot(terms(m, k, n), weights) * Math.exp(missed);
}
