// A robot's body in a canvas: by WebGL, or as a plain drawing where there is none. It knows links and joint positions.
"use strict";
const SUN = [0.42, -0.3, 0.86], FIELD = 0.5;  // rad: half of what the camera sees up and down
const GHOSTS = [[0.84, 0.37, 0], [0, 0.62, 0.45], [0.34, 0.71, 0.91]];  // as the curves of the same recordings
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const minus = (a, b) => a.map((part, i) => part - b[i]);
const plus = (a, b, share = 1) => a.map((part, i) => part + share * b[i]);
const unit = a => a.map(part => part / (Math.hypot(...a) || 1));

// A pose is a rotation by rows, 9 numbers, and a place.
const turned = (r, v) => [dot(r.slice(0, 3), v), dot(r.slice(3, 6), v), dot(r.slice(6), v)];
const placed = (pose, v) => plus(turned(pose.turn, v), pose.place);
const inside = ({turn: r, place}, v) =>
  turned([r[0], r[3], r[6], r[1], r[4], r[7], r[2], r[5], r[8]], minus(v, place));
function product(a, b) {
  const found = [];
  for (let i = 0; i < 9; i += 3) for (let j = 0; j < 3; j++) found.push(a[i] * b[j] + a[i + 1] * b[j + 3] + a[i + 2] * b[j + 6]);
  return found;
}
function about([x, y, z], angle) {
  const c = Math.cos(angle), s = Math.sin(angle), d = 1 - c;
  return [c + x * x * d, x * y * d - z * s, x * z * d + y * s, y * x * d + z * s, c + y * y * d, y * z * d - x * s,
    z * x * d - y * s, z * y * d + x * s, c + z * z * d];
}
function ofQuaternion([x, y, z, w]) {
  const angle = 2 * Math.atan2(Math.hypot(x, y, z), w);
  return about(unit([x, y, z]), angle);
}

// ---- shapes as triangles: nine numbers each
const quad = (a, b, c, d) => [...a, ...b, ...c, ...a, ...c, ...d];
function lathe(profile, sides = 18, from = 0) {  // (radius, height) from the bottom up
  const angle = i => from + 2 * Math.PI * i / sides, all = [];
  const at = ([r, z], i) => [r * Math.cos(angle(i)), r * Math.sin(angle(i)), z];
  for (let i = 0; i < sides; i++) for (let j = 1; j < profile.length; j++)
    all.push(...quad(at(profile[j - 1], i), at(profile[j - 1], i + 1), at(profile[j], i + 1), at(profile[j], i)));
  return all;
}
const cylinder = (r, length, ...more) => lathe([[0, -length / 2], [r, -length / 2], [r, length / 2], [0, length / 2]], ...more);
const box = size => cylinder(Math.SQRT1_2, 1, 4, Math.PI / 4).map((part, i) => part * size[i % 3]);
function ball(radius, length = 0) {
  const arc = Array.from({length: 7}, (_, i) => i * Math.PI / 12);
  const half = arc.map(a => [radius * Math.cos(a), radius * Math.sin(a) + length / 2]);
  return lathe([...half.map(([r, z]) => [r, -z]).reverse(), ...half]);
}
function triangles(shape) {
  const [a, b] = shape.size;
  if (shape.kind === "box") return box(shape.size);
  if (shape.kind === "cylinder") return cylinder(a, b);
  if (shape.kind === "mesh") return Array.from(new Float32Array(bytes(shape.triangles)));
  return ball(a, shape.kind === "capsule" ? b : 0);
}
// Of a link: place, normal and colour of each corner.
function corners(shapes) {
  const all = [];
  for (const shape of shapes) {
    const points = triangles(shape);
    for (let i = 0; i < points.length; i += 9) {
      const [a, b, c] = [0, 3, 6].map(j => placed(shape, points.slice(i + j, i + j + 3)));
      const normal = unit(cross(minus(b, a), minus(c, a)));
      if (Math.hypot(...normal) > 0.5) for (const corner of [a, b, c]) all.push(...corner, ...normal, ...shape.colour);
    }
  }
  return new Float32Array(all);
}

const VERTEX = `#version 300 es
  in vec3 at; in vec3 normal; in vec3 colour; out vec3 lit, spot;
  uniform mat4 view, model; uniform vec4 tint; uniform vec3 sun;
  void main() {
    vec4 world = model * vec4(at, 1.0); vec3 w = mat3(model) * normal, n = w / max(length(w), 1e-6);
    float light = length(normal) < 0.5 ? 1.0 : 0.52 + 0.38 * max(dot(n, sun), 0.0) + 0.12 * n.z;
    lit = mix(colour, tint.rgb, tint.a) * light; spot = world.xyz; gl_Position = view * world;
  }`;
const FRAGMENT = `#version 300 es
  precision highp float; in vec3 lit, spot; out vec4 seen; uniform float opacity, fade; uniform vec3 eye;
  void main() {
    seen = vec4(lit, opacity * (fade > 0.0 ? clamp(1.5 - distance(spot, eye) / fade, 0.0, 1.0) : 1.0));
  }`;

class Body {
  constructor(canvas, overlay, given) {
    Object.assign(this, {canvas, overlay, links: given.links, free: given.free, look: {yaw: 0.55, pitch: 0.28}, zoom: 1});
    this.meshes = this.links.map((_, i) => corners(given.shapes.filter(one => one.link === i)));
    this.bounds = this.meshes.map(mesh => {
      const low = [1e9, 1e9, 1e9], high = [-1e9, -1e9, -1e9], found = [];
      for (let i = 0; i < mesh.length; i += 9) for (let j = 0; j < 3; j++) {
        low[j] = Math.min(low[j], mesh[i + j]); high[j] = Math.max(high[j], mesh[i + j]);
      }
      for (let k = 0; mesh.length && k < 8; k++) found.push([0, 1, 2].map(j => (k >> j & 1 ? high : low)[j]));
      return found.length ? found : [[0, 0, 0]];
    });
    this.rest = {place: [0, 0, given.height], turn: [1, 0, 0, 0, 1, 0, 0, 0, 1]};
    this.floor = given.ground ? 0 : Infinity;
    this.gl = canvas.getContext("webgl2", {antialias: true, stencil: true, alpha: true});
    if (this.gl) this.prepare(); else this.plain = canvas.getContext("2d");
    canvas.addEventListener("webglcontextlost", event => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => { this.prepare(); this.changed(); });
    this.listen();
  }

  prepare() {
    const gl = this.gl, program = this.program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(program, shader);
    }
    gl.linkProgram(program); gl.useProgram(program);
    this.place = new Proxy({}, {get: (all, name) => all[name] ??= gl.getUniformLocation(program, name)});
    this.buffers = this.meshes.map(mesh => this.buffer(mesh));
    this.lines = null;
  }

  buffer(numbers) {
    const gl = this.gl, array = gl.createVertexArray();
    gl.bindVertexArray(array);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, numbers, gl.STATIC_DRAW);
    ["at", "normal", "colour"].forEach((name, i) => {
      const spot = gl.getAttribLocation(this.program, name);
      if (spot < 0) return;
      gl.enableVertexAttribArray(spot);
      gl.vertexAttribPointer(spot, 3, gl.FLOAT, false, 36, 12 * i);
    });
    return {array, count: numbers.length / 9};
  }

  // Poses of all links where each servo is at `position(servo)`; `base` is [x, y, z, qx, qy, qz, qw], or null.
  poses(position, base) {
    const all = [];
    this.links.forEach((link, i) => {
      if (link.parent < 0) {
        all[i] = base ? {place: base.slice(0, 3), turn: ofQuaternion(base.slice(3))} : {...this.rest};
        return;
      }
      const from = all[link.parent];
      let {place, turn} = link;
      const at = link.servo < 0 ? 0 : position(link.servo) || 0;
      if (link.slides) place = plus(place, turned(turn, link.axis), at);
      else if (at) turn = product(turn, about(link.axis, at));
      all[i] = {place: placed(from, place), turn: product(from.turn, turn)};
    });
    return all;
  }

  lowest(poses) {
    return Math.min(...poses.flatMap((pose, i) => this.bounds[i].map(corner => placed(pose, corner)[2])));
  }

  // `body` is drawn solid, each of `others` as a ghost where its servos are more than `apart` elsewhere.
  show({position, base, others, tints, worst, contacts, mass}) {
    const poses = this.poses(position, base);
    const shift = this.free && !base ? -this.lowest(poses) : 0;
    if (!this.free) this.floor = Math.min(this.floor, this.lowest(poses));
    const lift = all => all.map(pose => ({...pose, place: plus(pose.place, [0, 0, shift])}));
    this.now = lift(poses);
    this.ghosts = others.map(other => {
      const moved = this.links.map(link => link.servo >= 0 && other.apart(link.servo));
      this.links.forEach((link, i) => moved[i] ||= link.parent >= 0 && moved[link.parent]);
      return {poses: lift(this.poses(other.position, base)), moved};
    });
    Object.assign(this, {tints, worst, contacts, mass});
    this.draw();
  }

  // ---- the camera
  camera(again = false) {
    const {yaw, pitch} = this.look, width = this.canvas.clientWidth || 1, height = this.canvas.clientHeight || 1;
    const back = [Math.cos(yaw) * Math.cos(pitch), Math.sin(yaw) * Math.cos(pitch), Math.sin(pitch)];
    const right = unit(cross([0, 0, 1], back)), up = cross(back, right);
    const points = this.now.flatMap((pose, i) => this.bounds[i].map(corner => placed(pose, corner)));
    const steepness = Math.tan(FIELD / 1.12), wide = width / height;
    if (!this.middle || this.refit) {
      this.refit = false;
      const ends = [right, up, back].map(axis => points.map(point => dot(point, axis)));
      const [x, y, z] = ends.map(all => (Math.min(...all) + Math.max(...all)) / 2);
      this.middle = minus(plus(plus(right.map(part => part * x), up, y), back, z), this.now[0].place);
      const centre = plus(this.middle, this.now[0].place);
      this.distance = Math.max(0.1, ...points.map(point => {
        const from = minus(point, centre);
        return dot(from, back) + Math.max(Math.abs(dot(from, right)) / wide, Math.abs(dot(from, up))) / steepness;
      }));
    }
    const target = plus(this.middle, this.now[0].place), distance = this.distance / this.zoom;
    const eye = plus(target, back, distance), near = distance / 50, far = distance * 12;
    const f = 1 / Math.tan(FIELD), rows = [right.map(part => part * f / wide), up.map(part => part * f), back];
    const [x, y, z] = rows.map(row => -dot(row, eye)), a = (far + near) / (near - far), b = 2 * far * near / (near - far);
    const matrix = [];
    for (let j = 0; j < 3; j++) matrix.push(rows[0][j], rows[1][j], rows[2][j] * a, -rows[2][j]);
    matrix.push(x, y, z * a + b, -z);
    const screen = point => {
      const from = minus(point, eye), depth = -dot(from, back);
      return [width / 2 * (1 + dot(from, right) * f / wide / depth), height / 2 * (1 - dot(from, up) * f / depth), depth];
    };
    if (this.zoom === 1 && !again) {  // it has left the picture: once more, around it
      const outside = points.some(point => (([x, y]) => x < -2 || y < -2 || x > width + 2 || y > height + 2)(screen(point)));
      if (outside) { this.refit = true; return this.camera(true); }
    }
    return {eye, back, right, up, matrix, screen, width, height, f, wide, distance};
  }

  draw() {
    if (!this.now) return;
    const {canvas} = this, dense = Math.min(devicePixelRatio, 2);
    if (!canvas.clientWidth) return;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map(side => Math.round(side * dense));
    if (canvas.width !== width || canvas.height !== height) {
      Object.assign(canvas, {width, height});
      this.refit = this.zoom === 1;
    }
    const seen = this.seen = this.camera();
    if (this.gl) this.render(seen, width, height); else this.paint(seen, dense);
    this.annotate(seen);
    this.drawn = (this.drawn || 0) + 1;
  }

  render(seen, width, height) {
    const gl = this.gl, {place} = this, floor = this.floor;
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT | gl.STENCIL_BUFFER_BIT);
    gl.enable(gl.DEPTH_TEST); gl.enable(gl.BLEND);
    gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.uniformMatrix4fv(place.view, false, seen.matrix);
    gl.uniform3fv(place.sun, SUN); gl.uniform3fv(place.eye, seen.eye);
    const set = (opacity, tint, fade = 0) => {
      gl.uniform1f(place.opacity, opacity); gl.uniform4fv(place.tint, tint); gl.uniform1f(place.fade, fade);
    };
    const model = ({turn: r, place: p}) => gl.uniformMatrix4fv(place.model, false,
      [r[0], r[3], r[6], 0, r[1], r[4], r[7], 0, r[2], r[5], r[8], 0, ...p, 1]);
    const put = (i, kind = gl.TRIANGLES) => {
      gl.bindVertexArray(this.buffers[i].array); gl.drawArrays(kind, 0, this.buffers[i].count);
    };
    // the floor: a grid that fades, and the shadow once on each spot
    const grey = ink("zero").match(/\w\w/g).map(part => parseInt(part, 16) / 255);
    const step = 10 ** Math.floor(Math.log10(this.distance / 2)), around = this.now[0].place;
    const from = [0, 1].map(i => Math.round(around[i] / step) * step), key = [floor, step, ...from, ...grey].join();
    if (this.lines?.key !== key) {
      const all = [], line = (...ends) => ends.forEach(end => all.push(...plus(end, [...from, 0]), 0, 0, 0, ...grey));
      for (let i = -15; i <= 15; i++) for (let j = -15; j < 15; j++) {  // short ones: they fade along their way
        line([i * step, j * step, floor], [i * step, (j + 1) * step, floor]);
        line([j * step, i * step, floor], [(j + 1) * step, i * step, floor]);
      }
      this.lines = {key, ...this.buffer(new Float32Array(all))};
    }
    model({turn: [1, 0, 0, 0, 1, 0, 0, 0, 1], place: [0, 0, 0]});
    set(0.55, [0, 0, 0, 0], seen.distance * 1.6);
    gl.bindVertexArray(this.lines.array); gl.drawArrays(gl.LINES, 0, this.lines.count);
    gl.enable(gl.STENCIL_TEST); gl.stencilFunc(gl.EQUAL, 0, 1); gl.stencilOp(gl.KEEP, gl.KEEP, gl.INCR); gl.depthMask(false);
    set(0.16, [0, 0, 0, 1]);
    const [sx, sy] = [SUN[0] / SUN[2], SUN[1] / SUN[2]], flat = [1, 0, -sx, 0, 1, -sy, 0, 0, 0];
    this.now.forEach((pose, i) => {
      model({turn: product(flat, pose.turn), place: plus(turned(flat, pose.place), [sx * floor, sy * floor, floor + 1e-4])});
      put(i);
    });
    gl.disable(gl.STENCIL_TEST); gl.depthMask(true);
    this.now.forEach((pose, i) => { model(pose); set(1, this.tints[i] || [0, 0, 0, 0]); put(i); });
    gl.depthMask(false);
    this.ghosts.forEach(({poses, moved}, which) => poses.forEach((pose, i) => {
      if (moved[i]) { model(pose); set(0.35, [...GHOSTS[which % 3], 0.9]); put(i); }
    }));
    gl.depthMask(true);
  }

  // Without WebGL: the triangles from the farthest to the nearest.
  paint(seen, dense) {
    const pen = this.plain, all = [];
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, seen.width, seen.height);
    this.now.forEach((pose, i) => {
      const mesh = this.meshes[i], tint = this.tints[i] || [0, 0, 0, 0];
      for (let k = 0; k < mesh.length; k += 27) {
        const normal = turned(pose.turn, mesh.slice(k + 3, k + 6)), points = [0, 9, 18].map(j => placed(pose, mesh.slice(k + j, k + j + 3)));
        if (dot(normal, minus(seen.eye, points[0])) <= 0) continue;
        const light = 0.52 + 0.38 * Math.max(dot(normal, SUN), 0) + 0.12 * normal[2], spots = points.map(seen.screen);
        const colour = [0, 1, 2].map(j => 255 * light * (mesh[k + 6 + j] * (1 - tint[3]) + tint[j] * tint[3]));
        all.push({spots, colour: `rgb(${colour.map(Math.round)})`, depth: spots[0][2] + spots[1][2] + spots[2][2]});
      }
    });
    all.sort((a, b) => b.depth - a.depth);
    for (const {spots, colour} of all) {
      pen.fillStyle = pen.strokeStyle = colour;
      pen.beginPath(); spots.forEach(([x, y]) => pen.lineTo(x, y)); pen.closePath(); pen.fill(); pen.stroke();
    }
  }

  // An arrow with degrees at the worst joint; where the floor pushes; where the weight is.
  annotate(seen) {
    const path = points => "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L"), parts = [];
    const {worst} = this, link = worst && this.links.findIndex(one => one.servo === worst.servo);
    if (worst && link >= 0) {
      const pose = this.now[link], axis = turned(pose.turn, this.links[link].axis), radius = 0.085 * seen.distance;
      const start = unit(minus(seen.back, axis.map(part => part * dot(seen.back, axis))));
      const side = Math.hypot(...cross(seen.back, axis)) < 0.2 ? seen.right : cross(axis, start);
      const way = Math.sign(worst.by), arc = Array.from({length: 15}, (_, i) => {
        const angle = way * (i / 14 * 1.9 - 0.4);
        return seen.screen(plus(plus(pose.place, start, radius * Math.cos(angle)), side, radius * Math.sin(angle)));
      });
      const centre = seen.screen(pose.place), left = centre[0] < seen.width / 2, wide = 8.2 * worst.words.length + 6;
      const x = left ? Math.max(wide, centre[0] - 70) : Math.min(seen.width - wide, centre[0] + 70);
      parts.push(`<path class="arc" marker-end="url(#head)" d="${path(arc)}"/>`);
      parts.push(`<text x="${x.toFixed(1)}" y="${centre[1].toFixed(1)}" text-anchor="${left ? "end" : "start"}"></text>`);
    }
    for (const {point, force} of this.contacts || [])
      parts.push(`<path class="push" d="${path([seen.screen(point), seen.screen(plus(point, force))])}"/>`);
    if (this.mass) {
      const [at, below] = this.mass(this.now), [[x, y], foot] = [seen.screen(at), seen.screen([at[0], at[1], Number.isFinite(this.floor) ? this.floor : below])];
      parts.push(`<path class="mass" d="${path([[x, y], foot])}"/><circle class="mass" cx="${x}" cy="${y}" r="6"/>`);
    }
    const marks = parts.join("");
    if (this.marks !== marks) this.overlay.querySelector("g").innerHTML = this.marks = marks;
    const text = this.overlay.querySelector("text");
    if (text && text.textContent !== worst.words) text.textContent = worst.words;
  }

  // ---- hands
  listen() {
    const {canvas} = this, held = new Map();
    let moved = 0, spread = 0;
    this.changed = () => requestAnimationFrame(() => this.draw());
    canvas.addEventListener("pointerdown", event => {
      canvas.setPointerCapture(event.pointerId);
      held.set(event.pointerId, [event.offsetX, event.offsetY]);
      [moved, spread] = [held.size > 1 ? 9 : 0, 0];
    });
    canvas.addEventListener("pointermove", event => {
      const before = held.get(event.pointerId);
      if (!before) return;
      const by = [event.offsetX - before[0], event.offsetY - before[1]];
      held.set(event.pointerId, [event.offsetX, event.offsetY]);
      moved += Math.hypot(...by);
      if (held.size > 1) {
        const [a, b] = [...held.values()], wide = Math.hypot(a[0] - b[0], a[1] - b[1]);
        if (spread) this.zoomBy(wide / spread);
        spread = wide;
      } else if (moved > 4) {
        this.look.yaw -= by[0] * 0.008;
        this.look.pitch = Math.min(1.5, Math.max(-0.3, this.look.pitch + by[1] * 0.008));
        this.changed();
      }
    });
    canvas.addEventListener("pointerup", event => {
      if (moved <= 4 && held.size === 1) this.picked?.(this.servoAt(event.offsetX, event.offsetY));
    });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, event => held.delete(event.pointerId));
    canvas.addEventListener("wheel", event => { event.preventDefault(); this.zoomBy(Math.exp(-event.deltaY * 0.001)); }, {passive: false});
    canvas.addEventListener("dblclick", () => this.fit());
  }

  zoomBy(factor) {
    this.zoom = Math.min(8, Math.max(0.3, this.zoom * factor));
    this.changed();
  }

  fit() {
    this.zoom = 1;
    this.refit = true;
    this.changed();
  }

  // The servo that moves what is seen at this spot, -1 for none.
  servoAt(x, y) {
    const {eye, back, right, up, width, height, f, wide} = this.seen;
    const sideways = (2 * x / width - 1) * wide / f, upwards = (1 - 2 * y / height) / f;
    const way = unit(plus(plus(back.map(part => -part), right, sideways), up, upwards));
    let [nearest, link] = [Infinity, -1];
    this.now.forEach((pose, i) => {
      const from = inside(pose, eye), to = inside({...pose, place: [0, 0, 0]}, way), mesh = this.meshes[i];
      for (let k = 0; k < mesh.length; k += 27) {
        const a = mesh.slice(k, k + 3), one = minus(mesh.slice(k + 9, k + 12), a), two = minus(mesh.slice(k + 18, k + 21), a);
        const p = cross(to, two), scale = dot(one, p);
        if (Math.abs(scale) < 1e-14) continue;
        const s = minus(from, a), u = dot(s, p) / scale, q = cross(s, one), v = dot(to, q) / scale, far = dot(two, q) / scale;
        if (u >= 0 && v >= 0 && u + v <= 1 && far > 0 && far < nearest) [nearest, link] = [far, i];
      }
    });
    while (link >= 0 && this.links[link].servo < 0) link = this.links[link].parent;
    return link < 0 ? -1 : this.links[link].servo;
  }
}
