#include "binade/train/report/chart_script.h"

namespace binade::train {

const std::string_view chart_script = R"js(
'use strict';
{
const right = 440, width = 460, room = 0.04;
const numbers = text => text.split(' ').map(Number);
const element = (parent, tag, attributes, text) => {
  const made = document.createElementNS(parent.namespaceURI, tag);
  for (const name in attributes) made.setAttribute(name, attributes[name]);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
};
const shown = value => {
  const size = Math.abs(value);
  for (const [unit, name] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']])
    if (size >= 1e4 && size < 1e13 && size >= unit) return +(value / unit).toPrecision(6) + name;
  return size > 0 && (size < 1e-3 || size >= 1e13) ? (+value.toPrecision(4)).toExponential() : String(+value.toPrecision(6));
};
const linearTicks = (low, high, count) => {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find(factor => factor * power >= rough) || 10), ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; ++i) ticks.push(i * step);
  return ticks;
};
const powerTicks = (low, high) => {
  const first = Math.floor(Math.log10(low)), decades = Math.log10(high / low), ticks = [];
  const every = Math.ceil(decades / 6), factors = decades < 3 ? [1, 2, 5] : [1];
  for (let power = first; power <= first + decades + 1; power += every)
    for (const factor of factors) ticks.push(factor * 10 ** power);
  const inside = ticks.filter(tick => tick >= low && tick <= high);
  return inside.length > 1 ? inside : linearTicks(low, high, 4);
};

for (const plot of document.querySelectorAll('g.plot')) {
  const svg = plot.ownerSVGElement, figure = svg.parentElement, axes = plot.querySelector('.ticks');
  const [left, top, bottom] = numbers(plot.dataset.frame), band = plot.querySelector('[data-band]');
  const whole = {x: numbers(plot.dataset.x), y: numbers(plot.dataset.y)};
  const keys = [...svg.querySelectorAll('.key')], curves = [...plot.querySelectorAll('[data-points]')].map((path, i) => ({
    path, key: keys[i], name: path.dataset.name, hidden: false,
    markers: path.nextElementSibling && path.nextElementSibling.tagName === 'g' ? path.nextElementSibling : null,
    pieces: path.dataset.points.split(';').map(piece => piece.split(' ').map(point => point.split(',').map(Number)))}));
  for (const curve of curves) curve.points = curve.pieces.flat();
  const bandPoints = band ? band.dataset.band.split(' ').map(point => point.split(',').map(Number)) : [];
  let x = whole.x, y = whole.y, log = false, start = null;
  const px = value => left + (value - x[0]) / (x[1] - x[0]) * (right - left);
  const scale = value => log ? Math.log10(value) : value;
  const py = value => bottom - (scale(value) - scale(y[0])) / (scale(y[1]) - scale(y[0])) * (bottom - top);
  const unit = at => x[0] + (at - left) / (right - left) * (x[1] - x[0]);

  const clip = 'clip' + Math.random().toString(36).slice(2);
  element(element(svg, 'clipPath', {id: clip}), 'rect', {x: left - 4, y: top - 4, width: right - left + 8, height: bottom - top + 8});
  plot.querySelector('.curves').setAttribute('clip-path', `url(#${clip})`);
  const cursor = element(svg, 'line', {class: 'axis', y1: top, y2: bottom, visibility: 'hidden'});
  const chosen = element(svg, 'rect', {class: 'band', y: top, height: bottom - top, visibility: 'hidden'});
  const dots = element(svg, 'g', {});
  const values = figure.appendChild(document.createElement('div')), tools = document.createElement('div');
  values.className = 'values';
  values.hidden = true;
  tools.className = 'tools';
  (figure.querySelector('figcaption') || figure).prepend(tools);
  const button = (text, title, act) => {
    const made = tools.appendChild(document.createElement('button'));
    made.type = 'button'; made.textContent = text; made.title = title;
    made.addEventListener('click', () => { act(made); draw(); });
    return made;
  };

  const fit = () => {
    const seen = curves.filter(curve => !curve.hidden);
    if (x === whole.x && !log && seen.length === curves.length) return whole.y;
    const inside = seen.flatMap(curve => curve.points).concat(bandPoints.flatMap(([at, low, high]) => [[at, low], [at, high]]))
      .filter(([at, value]) => at >= x[0] && at <= x[1] && (!log || value > 0)).map(point => point[1]);
    if (inside.length === 0) return log ? [1, 10] : whole.y;
    let low = inside.reduce((a, b) => Math.min(a, b)), high = inside.reduce((a, b) => Math.max(a, b));
    if (low === high) { const half = low === 0 ? 1 : Math.abs(low) / 10; low -= log ? 0 : half; high += half; }
    if (log) return [low / (high / low) ** room, high];
    if (plot.dataset.zero) return [Math.min(low, 0), high];
    const padded = low - room * (high - low);
    return [low >= 0 ? Math.max(padded, 0) : padded, high];
  };
  const line = points => {
    let drawing = false, path = '';
    for (const [at, value] of points) {
      const drawn = !log || value > 0;
      if (drawn) path += (drawing ? 'L' : 'M') + px(at).toFixed(1) + ' ' + py(Math.min(value, x === whole.x && !log ? y[1] : value)).toFixed(1);
      drawing = drawn;
    }
    return path;
  };
  const drawAxes = () => {
    axes.replaceChildren();
    for (const tick of log ? powerTicks(y[0], y[1]) : linearTicks(y[0], y[1], 5)) {
      element(axes, 'line', {class: 'grid', x1: left, x2: right, y1: py(tick), y2: py(tick)});
      element(axes, 'text', {class: 'tick', 'text-anchor': 'end', x: left - 6, y: py(tick) + 4}, shown(tick));
    }
    for (const tick of linearTicks(x[0], x[1], 6))
      element(axes, 'text', {class: 'tick', 'text-anchor': 'middle', x: px(tick), y: bottom + 18}, shown(tick));
  };
  const draw = () => {
    y = fit();
    drawAxes();
    for (const curve of curves) {
      curve.path.setAttribute('d', curve.pieces.map(line).join(''));
      curve.path.style.display = curve.hidden ? 'none' : '';
      if (curve.key) { curve.key.style.opacity = curve.hidden ? 0.4 : 1; curve.key.setAttribute('aria-pressed', !curve.hidden); }
      if (!curve.markers) continue;
      curve.markers.style.display = curve.hidden ? 'none' : '';
      curve.points.forEach(([at, value], i) => {
        const marker = curve.markers.children[i], drawn = !log || value > 0;
        if (!marker) return;
        marker.style.display = drawn ? '' : 'none';
        if (drawn) { marker.setAttribute('cx', px(at)); marker.setAttribute('cy', py(value)); }
      });
    }
    if (band) band.setAttribute('d', line(bandPoints.map(([at, low, high]) => [at, high])) +
      line(bandPoints.map(([at, low]) => [at, low]).reverse()).replace('M', 'L') + 'Z');
    const note = plot.querySelector('.outliers');
    if (note) note.style.display = y === whole.y ? '' : 'none';
    reset.hidden = x === whole.x;
    leave();
  };
  const leave = () => {
    cursor.setAttribute('visibility', 'hidden');
    dots.replaceChildren();
    values.textContent = '';
    values.hidden = true;
  };
  // Of the points that are drawn, the one whose x is nearest.
  const nearest = (points, at) => points.reduce((best, point) => point[0] < x[0] || point[0] > x[1] || (log && !(point[1] > 0)) ||
    (best && Math.abs(best[0] - at) <= Math.abs(point[0] - at)) ? best : point, null);
  const show = at => {
    leave();
    const seen = curves.filter(curve => !curve.hidden).map(curve => [curve, nearest(curve.points, at)]).filter(([, point]) => point);
    if (seen.length === 0) return;
    const step = nearest(seen.map(([, point]) => point), at)[0];
    cursor.setAttribute('x1', px(step)); cursor.setAttribute('x2', px(step)); cursor.setAttribute('visibility', 'visible');
    values.hidden = false;
    values.append(`${plot.dataset.label} ${shown(step)}`);
    // Beside the cursor, on the side that has more room.
    const box = svg.getBoundingClientRect(), frame = figure.getBoundingClientRect(), onLeft = px(step) > width / 2;
    const beside = box.left - frame.left + px(step) / width * box.width;
    values.style.left = onLeft ? 'auto' : `${beside + 10}px`;
    values.style.right = onLeft ? `${frame.width - beside + 10}px` : 'auto';
    values.style.top = `${box.top - frame.top + top / width * box.width + 4}px`;
    for (const [curve, [where, value]] of seen) {
      const color = (curve.path.getAttribute('class').match(/s(\d)/) || [0, 8])[1];
      const text = values.appendChild(document.createElement('div'));
      text.style.color = color < 8 ? `var(--c${color})` : 'var(--ink)';
      text.textContent = `${curve.name} ${shown(value)}` + (where === step ? '' : ` at ${shown(where)}`);
      element(dots, 'circle', {class: 'f' + color, r: 3, cx: px(where), cy: Math.max(py(value), top)});
    }
  };

  const reset = button('whole', 'Show all of it again (double click)', () => { x = whole.x; });
  const positive = curves.some(curve => curve.points.some(point => point[1] > 0));
  if (positive) button('log', 'Logarithmic axis of values', made => { log = !log; made.setAttribute('aria-pressed', log); });
  for (const curve of curves) {
    if (!curve.key) continue;
    const toggle = () => { curve.hidden = !curve.hidden; draw(); };
    curve.key.setAttribute('role', 'button'); curve.key.setAttribute('tabindex', 0);
    curve.key.addEventListener('click', toggle);
    curve.key.addEventListener('keydown', event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); toggle(); } });
  }
  const place = event => {
    const box = svg.getBoundingClientRect();
    return [(event.clientX - box.left) * width / box.width, (event.clientY - box.top) * width / box.width];
  };
  const within = at => Math.min(Math.max(at, left), right);
  svg.style.touchAction = 'pan-y';
  svg.addEventListener('pointerdown', event => {
    const [at, height] = place(event);
    if (event.button !== 0 || at < left || at > right || height < top || height > bottom) return;
    start = at;
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  svg.addEventListener('pointermove', event => {
    const at = within(place(event)[0]);
    show(unit(at));
    if (start === null) return;
    for (const [name, value] of [['x', Math.min(at, start)], ['width', Math.abs(at - start)], ['visibility', 'visible']]) chosen.setAttribute(name, value);
  });
  const end = event => {
    const at = within(place(event)[0]), begin = start;
    start = null;
    chosen.setAttribute('visibility', 'hidden');
    if (begin === null || event.type !== 'pointerup' || Math.abs(at - begin) < 8) return;
    x = [unit(Math.min(at, begin)), unit(Math.max(at, begin))];
    draw();
  };
  for (const type of ['pointerup', 'pointercancel']) svg.addEventListener(type, end);
  svg.addEventListener('pointerleave', () => { if (start === null) leave(); });
  svg.addEventListener('dblclick', () => { x = whole.x; draw(); });
  reset.hidden = true;
}
}
)js";

}  // namespace binade::train
