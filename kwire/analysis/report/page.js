"use strict";
// Draws the lanes of groups from the data in the page; sorts and searches its tables. Names are set as text only.
(() => {
  const MS = 10;                       // units of the data per millisecond
  const MOST_OPENED = 5;               // folded sections that a search opens
  const SVG = "http://www.w3.org/2000/svg";
  const tip = document.getElementById("tip");
  const make = (name, text, attributes = {}) => {
    const node = document.createElement(name);
    if (text) node.textContent = text;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const draw = (name, attributes, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const duration = units => {
    const ms = units / MS;
    return ms < 1000 ? `${ms.toFixed(1)} ms` : ms < 600000 ? `${(ms / 1000).toFixed(3)} s` : `${(ms / 60000).toFixed(1)} min`;
  };

  async function unpack(node) {
    const bytes = Uint8Array.from(atob(node.textContent), char => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function absolute(differences) {     // generation, begin and end of reading, and the stop before it, of each band
    const made = [];
    for (let at = 0, generation = 0, last = 0; at < differences.length; at += 4) {
      const [next, gap, length, more] = differences.slice(at, at + 4);
      made.push([generation += next, last + gap, last + gap + length, more + gap]);
      last += gap + length;
    }
    return made;
  }

  // --- the lanes of one group ---

  class Lanes {
    constructor(box, data) {
      Object.assign(this, {box, data, place: box.dataset.group, mode: "members", from: 0, to: Math.max(data.end, 1)});
      data.members.forEach(member => { member.bands = absolute(member.bands); });
      this.bands = data.members.map(member => new Map(member.bands.map(band => [band[0], band])));
      this.byMember = data.members.map((member, index) => this.ofMember(member, index));
      this.byPartition = data.owners.map((changes, index) => this.ofPartition(changes, index));
      this.mostLag = Math.max(1, ...Object.values(data.commits).flat().map(point => point[1]));
      this.lane = 0;
      this.band = -1;
      this.controls();
      this.svg = draw("svg", {role: "application", tabindex: 0});
      this.svg.setAttribute("aria-label", "Lanes. Arrow keys move between bands, plus and minus zoom, 0 shows all, Enter opens the row of the rebalance.");
      box.append(this.svg);
      this.panel = make("div", "", {class: "panel", "aria-live": "polite"});
      box.append(this.panel);
      box.hidden = false;
      this.events();
      this.paint();
      new ResizeObserver(() => { if (box.clientWidth !== this.width) this.paint(); }).observe(box);
      this.zoomButtons();
    }

    name(member) { return this.data.names[member] ?? "?"; }
    generation(index) {
      const [life, number] = this.data.generations[index];
      return `generation ${number}${life > 1 ? ` of life ${life}` : ""}`;
    }
    time(units) {
      return new Date((this.data.begin + units) / MS).toISOString().slice(0, 23).replace("T", " ");
    }

    ofMember(member, index) {
      const made = [];
      for (const [generation, begin, end, stopped] of member.bands) {
        if (stopped) made.push({kind: "stop", begin: begin - stopped, end: begin, generation, text: "stopped"});
        if (end > begin) made.push({kind: `g${this.data.generations[generation][1] % 6}`, begin, end, generation, text: ""});
      }
      for (const [generation, begin, end] of member.open)
        made.push({kind: "stop", begin, end, generation, text: "stopped, no assignment yet"});
      made.forEach(band => { band.lane = this.name(index); });
      return made.sort((a, b) => a.begin - b.begin || a.end - b.end);
    }

    ofPartition(changes, index) {
      const made = [], count = this.data.generations.length;
      let at = 0, owner = -1, last = null;
      for (let generation = 0; generation < count; generation++) {
        if (changes[at] === generation) { owner = changes[at + 1]; at += 2; }
        const band = owner < 0 ? undefined : this.bands[owner]?.get(generation);
        if (band === undefined || band[2] <= band[1]) continue;
        if (last !== null && band[1] > last) made.push({kind: "unread", begin: last, end: band[1], generation, text: "no reader"});
        made.push({kind: `g${owner % 6}`, begin: band[1], end: band[2], generation, text: `read by ${this.name(owner)}`});
        last = Math.max(last ?? band[2], band[2]);
      }
      made.forEach(band => { band.lane = this.data.partitions[index]; });
      return made.sort((a, b) => a.begin - b.begin || a.end - b.end);
    }

    owners(generation) {              // partitions by member at a generation
      const made = new Map();
      this.data.owners.forEach((changes, partition) => {
        let owner = -1;
        for (let at = 0; at < changes.length && changes[at] <= generation; at += 2) owner = changes[at + 1];
        if (owner >= 0) made.set(owner, [...(made.get(owner) ?? []), this.data.partitions[partition]]);
      });
      return made;
    }

    controls() {
      const bar = make("div", "", {class: "bar"});
      this.modes = ["members", "partitions"].map(mode => {
        const button = make("button", `By ${mode.slice(0, -1)}`, {type: "button", "aria-pressed": String(mode === this.mode)});
        button.addEventListener("click", () => this.show(mode));
        return button;
      });
      bar.append(...this.modes);
      for (const [text, label, action] of [["+", "Zoom in", () => this.zoom(0.5)], ["−", "Zoom out", () => this.zoom(2)],
        ["◀", "Earlier", () => this.pan(-0.5)], ["▶", "Later", () => this.pan(0.5)], ["Whole capture", "", () => this.range(0, this.data.end)]]) {
        const button = make("button", text, {type: "button", ...(label ? {"aria-label": label} : {})});
        button.addEventListener("click", action);
        bar.append(button);
      }
      this.shown = make("span", "", {class: "range"});
      bar.append(this.shown);
      this.box.append(bar);
    }

    show(mode) {
      this.mode = mode;
      this.lane = 0;
      this.band = -1;
      this.modes.forEach((button, n) => button.setAttribute("aria-pressed", String(["members", "partitions"][n] === mode)));
      this.paint();
    }

    range(from, to) {
      const least = 10 * MS, width = Math.max(to - from, least), whole = Math.max(this.data.end, 1);
      this.from = Math.max(0, Math.min(from, whole - width));
      this.to = Math.min(Math.max(whole, least), this.from + width);
      this.paint();
    }
    zoom(factor, around = (this.from + this.to) / 2) {
      this.range(around - (around - this.from) * factor, around + (this.to - around) * factor);
    }
    pan(part) {
      const step = (this.to - this.from) * part;
      this.range(this.from + step, this.to + step);
    }

    get lanes() { return this.mode === "members" ? this.byMember : this.byPartition; }
    get labels() { return this.mode === "members" ? this.data.names : this.data.partitions; }
    x(time) { return this.gutter + (time - this.from) / (this.to - this.from) * (this.width - this.gutter); }
    t(x) { return this.from + (x - this.gutter) / (this.width - this.gutter) * (this.to - this.from); }
    y(lane) { return 22 + lane * this.row; }

    paint() {
      this.width = this.box.clientWidth;
      if (!this.width) return;
      const count = this.lanes.length;
      this.row = count <= 40 ? 20 : 13;
      this.gutter = Math.round(Math.min(170, this.width * 0.28));
      const height = this.y(count) + 6;
      Object.assign(this.svg.dataset, {from: this.from, to: this.to, gutter: this.gutter, row: this.row, mode: this.mode});
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
      this.svg.setAttribute("height", height);
      this.svg.replaceChildren(...this.axis(height), ...this.shapes(), ...this.names());
      this.cursor = draw("rect", {class: "cursor", visibility: "hidden"});
      this.svg.append(this.cursor);
      this.shown.textContent = `${this.time(this.from)} to ${this.time(this.to).slice(11)} UTC, ${duration(this.to - this.from)}`;
    }

    axis(height) {
      const made = [], wanted = (this.to - this.from) / Math.max(2, (this.width - this.gutter) / 110);
      const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];
      const step = (steps.find(ms => ms * MS >= wanted) ?? 864e5) * MS;
      const first = Math.ceil((this.data.begin + this.from) / step) * step - this.data.begin;
      for (let time = first; time <= this.to; time += step) {
        const x = this.x(time), text = this.time(time);
        made.push(draw("line", {class: "tick", x1: x, x2: x, y1: 16, y2: height}));
        if (x < this.width - 60) made.push(draw("text", {x: x + 3, y: 12}, step >= 1000 * MS ? text.slice(11, 19) : text.slice(11)));
      }
      const starts = this.data.rebalances.filter(one => one[0] >= this.from && one[0] <= this.to);
      made.push(draw("path", {class: "start", d: starts.map(one => `M${this.x(one[0]).toFixed(1)} 16V${height}`).join("")}));
      return made;
    }

    names() {
      const made = [], most = Math.max(3, Math.floor(this.gutter / 6.5));
      this.lanes.forEach((_, lane) => {
        const text = this.labels[lane], cut = text.length > most ? `${text.slice(0, most - 1)}…` : text;
        const label = draw("text", {x: 4, y: this.y(lane) + this.row - 5, class: "name"}, cut);
        if (cut !== text) label.append(draw("title", {}, text));
        made.push(label);
      });
      return made;
    }

    shapes() {
      const paths = new Map();
      const add = (kind, shape) => { paths.has(kind) ? paths.get(kind).push(shape) : paths.set(kind, [shape]); };
      this.lanes.forEach((bands, lane) => {
        for (const band of bands) {
          if (band.end < this.from || band.begin > this.to) continue;
          const [left, width, top, height] = this.shape(band, lane);
          add(band.kind, `M${left.toFixed(2)} ${top}h${width.toFixed(2)}v${height}h-${width.toFixed(2)}z`);
        }
        if (this.mode === "partitions") this.lagOf(lane, add);
      });
      const order = ["unread", "g0", "g1", "g2", "g3", "g4", "g5", "stop", "commit", "lag"];
      return order.filter(kind => paths.has(kind)).map(kind => draw("path", {class: kind, d: paths.get(kind).join("")}));
    }

    shape(band, lane) {
      const left = Math.max(this.x(band.begin), this.gutter), right = Math.min(this.x(band.end), this.width);
      const part = band.kind === "stop" ? 0.4 : 1;
      return [left, Math.max(right - left, 0.8), this.y(lane) + 1, Math.round((this.row - 3) * part)];
    }

    lagOf(lane, add) {
      const points = (this.data.commits[this.data.partitions[lane]] ?? []).filter(([time]) => time >= this.from && time <= this.to);
      const bottom = this.y(lane) + this.row - 2, high = this.row - 5;
      let before = null;
      for (const [time, lag] of points) {
        const x = this.x(time).toFixed(1);
        add("commit", `M${x} ${bottom}v-3`);
        if (lag < 0) { before = null; continue; }
        const y = (bottom - lag / this.mostLag * high).toFixed(1);
        add("lag", before === null ? `M${x} ${y}` : `L${x} ${before}V${y}`);
        before = y;
      }
    }

    // --- what is under the mouse, or chosen by keys ---

    at(x, y) {
      const lane = Math.floor((y - 22) / this.row);
      if (lane < 0 || lane >= this.lanes.length || x < this.gutter) return null;
      const near = 1.5 / (this.width - this.gutter) * (this.to - this.from), time = this.t(x);
      const inside = this.lanes[lane].filter(band => band.begin - near <= time && time <= band.end + near);
      const high = y - this.y(lane) <= (this.row - 3) * 0.4 + 1;
      const distance = band => Math.max(band.begin - time, time - band.end, 0);
      inside.sort((a, b) => (b.kind === "stop") * (high ? 1 : -1) - (a.kind === "stop") * (high ? 1 : -1) || distance(a) - distance(b));
      return {lane, time, near, band: inside[0]};
    }

    text({lane, time, near, band}) {
      const lines = [];
      if (band) {
        const what = band.text ? `${band.text}, ` : "";
        lines.push(band.lane, `${what}${this.generation(band.generation)}`,
          `${this.time(band.begin)} for ${duration(band.end - band.begin)}`);
      }
      if (this.mode === "partitions" && time !== undefined) {
        const points = this.data.commits[this.data.partitions[lane]] ?? [];
        const hit = points.filter(point => Math.abs(point[0] - time) <= 2 * near).sort((a, b) => Math.abs(a[0] - time) - Math.abs(b[0] - time))[0];
        if (hit) lines.push(`commit at ${this.time(hit[0]).slice(11)}${hit[1] < 0 ? "" : `, lag ${hit[1]}`}`);
      }
      return lines.join("\n");
    }

    events() {
      this.svg.addEventListener("mousemove", event => {
        const box = this.svg.getBoundingClientRect();
        const hit = this.at(event.clientX - box.left, event.clientY - box.top);
        const text = hit ? this.text(hit) : "";
        text ? tipAt(text, event.clientX, event.clientY) : hideTip();
      });
      this.svg.addEventListener("mouseleave", hideTip);
      this.svg.addEventListener("blur", hideTip);
      this.svg.addEventListener("click", event => {
        const box = this.svg.getBoundingClientRect();
        const hit = this.at(event.clientX - box.left, event.clientY - box.top);
        if (hit?.band) this.open(hit.band.generation);
      });
      this.svg.addEventListener("wheel", event => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.t(event.clientX - this.svg.getBoundingClientRect().left));
      }, {passive: false});
      this.svg.addEventListener("keydown", event => this.key(event));
    }

    key(event) {
      const bands = this.lanes[this.lane] ?? [];
      const actions = {
        ArrowRight: () => { this.band = Math.min(this.band + 1, bands.length - 1); this.point(); },
        ArrowLeft: () => { this.band = Math.max(this.band - 1, 0); this.point(); },
        ArrowDown: () => this.go(this.lane + 1), ArrowUp: () => this.go(this.lane - 1),
        "+": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.range(0, this.data.end),
        Enter: () => { if (bands[this.band]) this.open(bands[this.band].generation); },
      };
      if (!(event.key in actions)) return;
      event.preventDefault();
      actions[event.key]();
    }

    go(lane) {
      if (!this.lanes.length) return;
      const time = this.lanes[this.lane]?.[this.band]?.begin ?? this.from;
      this.lane = Math.max(0, Math.min(lane, this.lanes.length - 1));
      const later = this.lanes[this.lane].findIndex(band => band.begin >= time);
      this.band = later < 0 ? this.lanes[this.lane].length - 1 : later;
      this.point();
    }

    point() {
      const band = this.lanes[this.lane]?.[this.band];
      if (!band) return;
      if (band.end < this.from || band.begin > this.to) this.range(band.begin - (this.to - this.from) / 2, band.begin + (this.to - this.from) / 2);
      const [left, width, top, height] = this.shape(band, this.lane);
      for (const [key, value] of Object.entries({x: left, y: top, width, height, visibility: "visible"})) this.cursor.setAttribute(key, value);
      this.cursor.scrollIntoView({block: "nearest"});
      const box = this.svg.getBoundingClientRect();
      tipAt(this.text({lane: this.lane, band}), box.left + left, box.top + top + height);
    }

    // --- rebalances ---

    rowOf(number) { return document.getElementById(`rebalance-${this.place}-${number}`); }

    open(generation) {
      const number = this.data.rebalances.findIndex(one => one[3] === generation), row = this.rowOf(number);
      if (!row) return;
      this.choose(number);
      row.querySelector("button.zoom")?.focus({preventScroll: true});
      row.scrollIntoView({block: "center"});
    }

    zoomButtons() {
      this.data.rebalances.forEach((_, number) => {
        const cell = this.rowOf(number)?.cells[0];
        if (!cell) return;
        const button = make("button", "⌕", {type: "button", class: "zoom", "aria-label": "Show this rebalance in the lanes"});
        button.addEventListener("click", () => {
          this.choose(number);
          this.box.scrollIntoView({block: "start"});
        });
        cell.append(" ", button);
      });
    }

    choose(number) {
      const [begin, end, before, after] = this.data.rebalances[number];
      const margin = Math.max((end - begin) * 0.5, 50 * MS);
      this.range(begin - margin, end + margin);
      this.box.querySelectorAll("tr.chosen").forEach(row => row.classList.remove("chosen"));
      document.querySelectorAll(`[id^="rebalance-${this.place}-"].chosen`).forEach(row => row.classList.remove("chosen"));
      this.rowOf(number)?.classList.add("chosen");
      this.compare(before, after);
    }

    compare(before, after) {
      const had = before < 0 ? new Map() : this.owners(before), has = after < 0 ? new Map() : this.owners(after);
      const table = make("table", "", {class: "before-after"}), head = table.createTHead().insertRow();
      table.createCaption().textContent = after < 0 ? "Before" : `Before and after: ${this.generation(after)}`;
      ["member", "before", "after", "gained", "lost"].forEach(text => head.append(make("th", text, {scope: "col"})));
      const body = table.createTBody();
      const text = names => names.length > 40 ? `${names.slice(0, 40).join(", ")} and ${names.length - 40} more` : names.join(", ");
      for (const member of [...new Set([...had.keys(), ...has.keys()])].sort((a, b) => a - b)) {
        const [one, two] = [had.get(member) ?? [], has.get(member) ?? []], row = body.insertRow();
        const gained = two.filter(name => !one.includes(name)), lost = one.filter(name => !two.includes(name));
        for (const value of [this.name(member), String(one.length), String(two.length), text(gained), text(lost)]) row.insertCell().textContent = value;
      }
      const box = make("div", "", {class: "scroll", tabindex: 0, role: "group", "aria-label": "Before and after"});
      box.append(table);
      this.panel.replaceChildren(box);
      watch(box);
    }
  }

  function tipAt(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const {width, height} = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - width - 4))}px`;
    tip.style.top = `${y + 16 + height > innerHeight ? Math.max(4, y - height - 12) : y + 16}px`;
  }
  function hideTip() { tip.hidden = true; }
  addEventListener("keydown", event => { if (event.key === "Escape") hideTip(); });

  async function open(box) {
    if (box.dataset.drawn || box.closest("details:not([open])")) return;
    box.dataset.drawn = "1";
    new Lanes(box, await unpack(document.getElementById(`data-${box.dataset.group}`)));
  }
  const boxes = [...document.querySelectorAll("div.lanes")];
  const start = () => Promise.all(boxes.map(open));
  document.querySelectorAll("section.group > details").forEach(node => node.addEventListener("toggle", start));
  start().then(() => { document.documentElement.dataset.ready = "1"; });
  function openAddressed() {
    const addressed = document.getElementById(location.hash.slice(1));
    const folded = addressed?.querySelector(":scope > details") ?? addressed?.closest("details:not([open])");
    if (folded) folded.open = true;
    addressed?.scrollIntoView();
  }
  addEventListener("hashchange", openAddressed);
  openAddressed();

  // --- tables that are wider than the page ---

  function fit(box) {                 // a box that does not scroll is no tab stop
    const scrolls = box.scrollWidth > box.clientWidth + 1, before = box.previousElementSibling;
    const hint = before?.classList.contains("hint") ? before : null;
    scrolls ? box.setAttribute("tabindex", "0") : box.removeAttribute("tabindex");
    if (scrolls && !hint) box.before(make("p", "Scroll sideways for more columns →", {class: "hint"}));
    if (!scrolls) hint?.remove();
  }
  const sizes = new ResizeObserver(entries => entries.forEach(({target}) => fit(target.closest(".scroll"))));
  function watch(box) {
    sizes.observe(box);
    sizes.observe(box.firstElementChild);
  }
  document.querySelectorAll(".scroll").forEach(watch);

  // --- sorting and searching ---

  const value = row => at => {
    const cell = row.cells[at];
    return cell.classList.contains("n") ? Number(cell.textContent) : cell.textContent;
  };
  function order(a, b) {
    if ((a === "") !== (b === "")) return a === "" ? 1 : -1;   // empty cells last
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, {numeric: true});
  }
  for (const head of document.querySelectorAll("thead th")) {
    const button = make("button", head.textContent, {type: "button"});
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const table = head.closest("table"), body = table.tBodies[0], at = head.cellIndex;
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      body.append(...[...body.rows].map((row, n) => [row, value(row)(at), n])
        .sort((a, b) => (a[1] === "" || b[1] === "" ? 1 : sign) * order(a[1], b[1]) || a[2] - b[2]).map(item => item[0]));
    });
  }

  function searchIn(list, words, fits) {   // equal findings: open the list if one fits, and hide the others
    const items = [...list.querySelectorAll("li")], some = Boolean(words) && items.some(fits);
    items.forEach(item => { item.hidden = some && !fits(item); });
    list.open = some;
  }
  const search = make("input", "", {type: "search", placeholder: "Search", "aria-label": "Search groups, findings and rows"});
  const found = make("span", "", {role: "status"});
  document.getElementById("tools")?.append(search, " ", found);
  search.addEventListener("input", () => {
    const words = search.value.trim().toLowerCase();
    const fits = node => !words || node.textContent.toLowerCase().includes(words);
    const folded = [];
    for (const section of document.querySelectorAll("main > section")) {
      const whole = fits(section.querySelector("h2"));
      let any = false;
      for (const row of section.querySelectorAll("tbody tr")) {
        row.hidden = !(whole && section.classList.contains("group")) && !fits(row);
        any ||= !row.hidden;
        row.querySelectorAll("details.alike").forEach(list => searchIn(list, words, fits));
      }
      section.hidden = Boolean(words) && !any && !(whole && section.classList.contains("group"));
      const details = section.querySelector(":scope > details:not([open])");
      if (words && details?.querySelector("tbody tr:not([hidden])")) folded.push(details);
    }
    if (folded.length <= MOST_OPENED) folded.forEach(details => { details.open = true; });
    const rows = document.querySelectorAll("tbody tr:not([hidden])").length;
    found.textContent = words ? `${rows} ${rows === 1 ? "row" : "rows"}` : "";
  });
})();
