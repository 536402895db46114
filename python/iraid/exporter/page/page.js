/* page.js - asks api/v1/status every two seconds and shows what it says.
 *
 * Whatever comes from the gateway is put in as text (textContent, text nodes, attributes that run nothing), so that no
 * name can be markup.  Cards of volumes stay in place and are filled anew, so that focus, scrolling and selection do.
 */
"use strict";

const ASK_MS = 2000, LIMIT_MS = 10000, OVERLAP_MS = 60000, PLOT_HEIGHT = 144;
const SPANS_MS = [5, 15, 30, 60].map((minutes) => minutes * 60000);
const STATES = {	/* of volumes: how it is shown, and the words beside it */
	"active": ["good", "✓"], "degraded": ["warn", "▲"], "assembling": ["warn", "…"],
	"suspended": ["bad", "‖"], "failed": ["bad", "✕"], "stopping": ["idle", "…"], "stopped": ["idle", "■"],
	"standby": ["idle", "◐"],
};
const MEMBER_STATES = {
	"in sync": ["good", "✓"], "rebuilding": ["warn", "↻"], "out of date": ["warn", "▲"],
	"faulty": ["bad", "✕"], "missing": ["bad", "✕"], "spare": ["idle", "+"],
};
const SEVERITIES = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];
const GRADES = ["good", "warn", "bad"];	/* of verdicts */
const WORDS = {	/* of verdicts; without figures, since every change at the top is read out */
	WORK: "has work in progress", WAITING: "waits for members", ATTENTION: "needs attention", DEGRADED: "is degraded",
	SUSPENDED: "is suspended", FAILED: "has failed",
};
const PLOTS = [
	{ title: "Throughput", read: "read_bytes_per_second", write: "write_bytes_per_second", show: (v) => bytes(v) + "/s", binary: true, least: 1024 },
	{ title: "Commands a second", read: "reads_per_second", write: "writes_per_second", show: (v) => number(v) + "/s", least: 10 },
	{ title: "Mean latency", read: "read_us", write: "write_us", show: duration, least: 100 },
];

const cards = new Map();	/* volume's name -> Card */
let cards_made = 0;
let newest_ms = 0;		/* point that we have */
let answered_at = null;		/* last answer of the exporter, by this machine's clock */
let events = [];

/* --- words --- */

function number(value) {
	return value >= 100 || value === 0 ? String(Math.round(value)) : String(Number(value.toPrecision(2)));
}

function bytes(value) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
	let unit = 0;
	while (value >= 1024 && unit < units.length - 1) {
		value /= 1024;
		unit++;
	}
	return (unit === 0 ? Math.round(value) : Number(value.toPrecision(value >= 100 ? 3 : 2))) + " " + units[unit];
}

function duration(us) {
	if (us < 1000)
		return Math.round(us) + " µs";
	return us < 1e6 ? number(us / 1000) + " ms" : number(us / 1e6) + " s";
}

function long_time(seconds) {
	seconds = Math.floor(seconds);
	if (seconds < 60)
		return seconds + " s";
	if (seconds < 3600)
		return Math.floor(seconds / 60) + " min " + seconds % 60 + " s";
	if (seconds < 86400)
		return Math.floor(seconds / 3600) + " h " + Math.floor(seconds % 3600 / 60) + " min";
	return Math.floor(seconds / 86400) + " d " + Math.floor(seconds % 86400 / 3600) + " h";
}

function clock(ms) {
	return new Date(ms).toLocaleTimeString([], { hour12: false });
}

function day_and_clock(ms) {
	const at = new Date(ms), two = (n) => String(n).padStart(2, "0");
	return at.getFullYear() + "-" + two(at.getMonth() + 1) + "-" + two(at.getDate()) + " " + clock(ms);
}

/* --- elements --- */

function fill(element, attributes, children) {
	for (const [name, value] of Object.entries(attributes))
		element.setAttribute(name, value);
	element.append(...children.filter((child) => child !== null));
	return element;
}

function make(tag, attributes = {}, ...children) {
	return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
	return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/* Readers are told of what changed, not every two seconds of what did not. */
function set_text(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

function with_symbol(look, symbol, words) {
	return make("span", { class: look }, make("span", { class: "symbol", "aria-hidden": "true" }, symbol), words);
}

function state_shown(states, state, more = "") {
	const [look, symbol] = states[state] ?? ["idle", "?"];
	return with_symbol(look, symbol, state + more);
}

/* cells: [class, label, content]; the label is for narrow screens, where a row is a list. */
function row(cells) {
	return make("tr", { role: "row" }, ...cells.map(([kind, label, content]) =>
		make("td", { role: "cell", class: kind, "data-label": label }, ...(content === "" ? [] : [content]))));
}

/* --- a volume --- */

class Card {
	constructor(name) {
		this.points = [];
		this.title = make("h2", { id: "volume-" + cards_made++ }, name);
		this.badge = make("p", { class: "badge" });
		this.facts = make("p", { class: "facts" });
		this.remarks = make("ul");
		this.works = make("div");
		this.plots = PLOTS.map((plot) => new Plot(plot, name));
		this.rows = make("tbody", { role: "rowgroup" });
		const columns = ["Role", "Member", "State", "Session", "Read", "Written", "Under way", "RTT", "Sent again", "Errors"];
		const heads = columns.map((column, i) =>
			make("th", { role: "columnheader", scope: "col", class: i >= 4 ? "number" : "" }, column));
		this.element = make("article", { "aria-labelledby": this.title.id },
			make("div", { class: "heading" }, this.title, this.badge), this.facts, this.remarks, this.works,
			make("div", { class: "plots" }, ...this.plots.map((plot) => plot.element)),
			make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Members of " + name },
				make("table", { role: "table" }, make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...heads)),
					this.rows)));
	}

	update(volume, data) {
		const [look, symbol] = (data.up && STATES[volume.state]) || ["idle", "?"];
		this.element.className = data.up ? "" : "old";
		this.badge.className = "badge " + look;
		this.badge.replaceChildren(with_symbol(look, symbol, (data.up ? "" : "was ") + volume.state));
		set_text(this.facts, facts(volume, data.time_ms).join(" · "));
		this.remarks.replaceChildren(...remarks(volume));
		this.works.replaceChildren(...["rebuild", "resync", "scrub"].map((kind) => work(volume, kind)).filter(Boolean));
		this.rows.replaceChildren(...volume.members.map((member) => member_row(volume, member)));
		this.add_points(volume.points, data);
		for (const plot of this.plots)
			plot.update(this.points, data);
	}

	add_points(points, data) {
		const last = this.points.length ? this.points[this.points.length - 1].time_ms : 0;
		this.points.push(...points.filter((point) => point.time_ms > last));
		while (this.points.length && this.points[0].time_ms < data.time_ms - data.history.kept_ms)
			this.points.shift();
	}
}

/* Of a gateway that has had it from the start there is nothing to tell. */
function turn(volume, time_ms) {
	if (!volume.role || volume.role_since_ms === null)
		return [];
	const since = "for " + long_time((time_ms - volume.role_since_ms) / 1000);
	const changes = volume.role_changes_hour > 1 ? ", " + volume.role_changes_hour + " changes in the last hour" : "";
	return [volume.role + " on this gateway " + since + changes];
}

function facts(volume, time_ms) {
	const known = [volume.level_name, ...turn(volume, time_ms)];
	if (volume.size_bytes)
		known.push(bytes(volume.size_bytes), "chunk " + bytes(volume.chunk_bytes));
	if (volume.log.open)
		known.push("writes are logged");
	if (volume.users.length)
		known.push("used by " + volume.users.join(", "));
	return known.concat(volume.verdict.notes);
}

/* The verdict is that of `iraid status`; members that are out say why. */
function remarks(volume) {
	const said = volume.answer_error ? ["The volume does not answer: " + volume.answer_error] : [];
	said.push(volume.verdict.text);
	for (const member of volume.members) {
		if (member.reason)
			said.push(member.member + " is " + member.state + ": " + member.reason);
	}
	const shown = said.map((text) => make("li", {}, text));
	if (volume.verdict.remedies.length)
		shown.push(make("li", {}, "To do: ", ...volume.verdict.remedies.flatMap((command, i) =>
			[i ? ", " : "", make("code", {}, command)])));
	return shown;
}

/* Progress of a rebuild, resync or scrub; null if there is none. */
function work(volume, kind) {
	const it = volume[kind];
	if (!it.pending || (kind === "resync" && !it.running))
		return null;
	const percent = it.total_rows ? Math.min(100, 100 * it.done_rows / it.total_rows) : 0;
	const words = [percent.toFixed(1) + " %"];
	if (it.running)
		words.push(bytes(it.bytes_per_second) + "/s of each member");
	else
		words.push("waits" + (it.reason ? ": " + it.reason : ""));
	if (it.seconds_left !== null)
		words.push(long_time(it.seconds_left) + " left");
	if (kind === "rebuild" && it.member)
		words.push("fills " + it.member);
	const name = kind === "scrub" ? "scrub (" + it.mode + ")" : kind;
	return make("div", { class: "work" }, make("h3", {}, name),
		make("progress", { max: "100", value: percent.toFixed(1), "aria-label": name + " of " + volume.name }),
		make("p", {}, words.join(", ")));
}

function member_row(volume, member) {
	let more = "";
	if (volume.rebuild.member === member.member && volume.rebuild.total_rows)
		more = " " + (100 * volume.rebuild.done_rows / volume.rebuild.total_rows).toFixed(0) + " %";
	if (member.slow)
		more += ", slow";
	const paths = member.paths ?? [];
	const errors = member.errors + (member.medium_errors ? ", " + member.medium_errors + " medium" : "");
	return row([
		["", "Role", member.role === null ? "–" : String(member.role)],
		["address", "Member", member.member],
		["state", "State", state_shown(MEMBER_STATES, member.state, more)],
		["", "Session", member.link],
		["number", "Read", bytes(member.read_bytes)],
		["number", "Written", bytes(member.written_bytes)],
		["number", "Under way", member.in_flight === null ? "–" : String(member.in_flight)],
		["number", "RTT", paths.map((path) => duration(path.rtt_us)).join(", ") || "–"],
		["number", "Sent again", paths.map((path) => String(path.retransmits)).join(", ") || "–"],
		["number", "Errors", errors],
	]);
}

/* --- plots --- */

class Plot {
	constructor(plot, name) {
		this.plot = plot;
		this.name = name;
		this.points = [];
		this.index = null;	/* of the point that is read off, if one is */
		this.svg = draw("svg", { role: "img", tabindex: "0" });
		this.now = make("output");
		const key = (kind) => make("span", { class: "key" },
			draw("svg", { "aria-hidden": "true" }, draw("path", { class: kind, d: "M1 5H25" })), " " + kind);
		this.element = make("figure", {},
			make("figcaption", {}, make("h3", {}, plot.title), make("span", {}, key("read"), " ", key("write"))),
			this.svg, this.now);
		this.svg.addEventListener("pointermove", (event) => this.point_at(event.offsetX));
		this.svg.addEventListener("pointerleave", () => this.read_off(null));
		this.svg.addEventListener("blur", () => this.read_off(null));
		this.svg.addEventListener("keydown", (event) => this.key(event));
		new ResizeObserver(() => this.draw()).observe(this.svg);
	}

	update(points, data) {
		const chosen = Number(document.getElementById("span").value);
		const needed = points.length ? data.time_ms - points[0].time_ms : 0;
		this.end = data.time_ms;
		this.span = chosen || (SPANS_MS.find((span) => span >= needed) ?? SPANS_MS[SPANS_MS.length - 1]);
		this.gap = 3 * data.history.interval_ms;
		const at = this.index === null ? null : this.points[this.index]?.time_ms;
		this.points = points.filter((point) => point.time_ms >= this.end - this.span);
		this.index = at === null ? null : this.points.findIndex((point) => point.time_ms === at);
		if (this.index === -1)
			this.index = null;
		this.draw();
	}

	draw() {
		const width = this.svg.clientWidth;
		if (!width || !this.span)
			return;
		this.left = 64;
		this.right = width - 6;
		this.svg.setAttribute("viewBox", "0 0 " + width + " " + PLOT_HEIGHT);
		const values = this.points.flatMap((point) => [point[this.plot.read] ?? 0, point[this.plot.write] ?? 0]);
		this.top = nice_top(Math.max(this.plot.least, ...values), this.plot.binary);
		this.svg.replaceChildren(...this.axes(), this.line("read"), this.line("write"), ...this.cursor());
		const last = this.points[this.index ?? this.points.length - 1];
		const words = last ? this.words(last) : "nothing yet";
		set_text(this.now, words);
		this.svg.setAttribute("aria-label", this.plot.title + " of " + this.name + ": " + words +
			". Arrow keys read off other times.");
	}

	x(ms) {
		return this.left + (this.right - this.left) * (ms - (this.end - this.span)) / this.span;
	}

	y(value) {
		return PLOT_HEIGHT - 20 - (PLOT_HEIGHT - 30) * value / this.top;
	}

	axes() {
		const drawn = [];
		for (const part of [0, 0.5, 1]) {
			const y = this.y(this.top * part).toFixed(1);
			drawn.push(draw("path", { class: "grid", d: "M" + this.left + " " + y + "H" + this.right }),
				draw("text", { x: this.left - 6, y: Number(y) + 4, "text-anchor": "end" }, this.plot.show(this.top * part)));
		}
		for (const part of [0, 0.5, 1])
			drawn.push(draw("text", { x: this.x(this.end - this.span * (1 - part)), y: PLOT_HEIGHT - 4,
				"text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, clock(this.end - this.span * (1 - part))));
		return drawn;
	}

	/* Broken where nothing is known: no command in that time, or no handler. */
	line(kind) {
		const path = [];
		let before = null;
		for (const point of this.points) {
			const value = point[this.plot[kind]];
			if (value === null) {
				before = null;
				continue;
			}
			const joined = before !== null && point.time_ms - before <= this.gap;
			path.push((joined ? "L" : "M") + this.x(point.time_ms).toFixed(1) + " " + this.y(value).toFixed(1) + (joined ? "" : "h.5"));
			before = point.time_ms;
		}
		return draw("path", { class: kind, d: path.join("") });
	}

	cursor() {
		if (this.index === null)
			return [];
		const x = this.x(this.points[this.index].time_ms).toFixed(1);
		return [draw("path", { class: "cursor", d: "M" + x + " 8V" + (PLOT_HEIGHT - 20) })];
	}

	words(point) {
		const value = (kind) => point[this.plot[kind]] === null ? "none" : this.plot.show(point[this.plot[kind]]);
		return clock(point.time_ms) + ": read " + value("read") + ", write " + value("write");
	}

	point_at(x) {
		if (!this.points.length)
			return;
		const ms = this.end - this.span + this.span * (x - this.left) / (this.right - this.left);
		let best = 0;
		this.points.forEach((point, i) => {
			if (Math.abs(point.time_ms - ms) < Math.abs(this.points[best].time_ms - ms))
				best = i;
		});
		this.read_off(best);
	}

	key(event) {
		const last = this.points.length - 1, now = this.index ?? last;
		const goals = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last };
		if (last < 0 || !(event.key in goals))
			return;
		event.preventDefault();
		this.read_off(Math.max(0, Math.min(last, goals[event.key])));
	}

	read_off(index) {
		this.index = index;
		this.draw();
	}
}

/* A round number at or above the value, so that the axis does not jump with every point. */
function nice_top(value, binary) {
	let unit = 1;
	if (binary)
		while (value >= unit * 1024)
			unit *= 1024;
	for (let ten = unit; ; ten *= 10)
		for (const step of [1, 2, 5])
			if (value <= step * ten)
				return step * ten;
}

/* --- the gateway --- */

function verdict(data) {
	const old = data.known_ms === null ? [] : ["The data below is from " + day_and_clock(data.known_ms) + "."];
	if (!data.up)
		return ["bad", ["The handler does not answer: " + data.error, "Remedy: " + data.remedy, ...old]];
	if (!data.volumes.length)
		return ["good", ["The gateway has no volumes."]];
	const grade = Math.max(...data.volumes.map(grade_of));
	if (grade === 0)
		return ["good", [data.volumes.length === 1 ? "The volume is ok." : "All " + data.volumes.length + " volumes are ok."]];
	const not_well = data.volumes.filter((volume) => grade_of(volume) > 0);
	return [GRADES[grade], not_well.sort((a, b) => grade_of(b) - grade_of(a)).map((volume) =>
		"Volume " + volume.name + " " + (volume.answer_error ? "does not answer" : WORDS[volume.verdict.word]) + ".")];
}

function grade_of(volume) {
	return volume.answer_error ? 2 : volume.verdict.grade;
}

function show_verdict(look, texts) {
	const element = document.getElementById("verdict");
	const symbol = { good: "✓ ", warn: "▲ ", bad: "✕ " }[look];
	const wanted = texts.map((text, i) => (i === 0 ? symbol : "") + text);
	if (element.className === look && [...element.children].map((p) => p.textContent).join("\n") === wanted.join("\n"))
		return;
	element.className = look;
	element.replaceChildren(...wanted.map((text) => make("p", {}, text)));
}

function show_volumes(data) {
	const place = document.getElementById("volumes");
	const names = new Set(data.volumes.map((volume) => volume.name));
	for (const [name, card] of cards) {
		if (!names.has(name)) {
			card.element.remove();
			cards.delete(name);
		}
	}
	data.volumes.forEach((volume, i) => {
		if (!cards.has(volume.name))
			cards.set(volume.name, new Card(volume.name));
		const card = cards.get(volume.name);
		if (place.children[i] !== card.element)
			place.insertBefore(card.element, place.children[i] ?? null);
		card.update(volume, data);
		for (const point of volume.points)
			newest_ms = Math.max(newest_ms, point.time_ms);
	});
}

function show_spares(spares) {
	const section = document.getElementById("spares");
	section.hidden = spares.length === 0;
	section.querySelector("ul").replaceChildren(...spares.map((spare) =>
		make("li", {}, spare.device + ", " + bytes(spare.size_bytes))));
}

function show_events() {
	const least = Number(document.getElementById("least").value);
	const shown = events.filter((event) => SEVERITIES.indexOf(event.severity) <= least).reverse();
	document.querySelector("#events tbody").replaceChildren(...shown.map((event) => {
		const rank = SEVERITIES.indexOf(event.severity);
		const look = rank <= 3 ? ["bad", "✕"] : rank === 4 ? ["warn", "▲"] : ["idle", "·"];
		return row([["time", "Time", day_and_clock(event.time_ms)],
			["state", "Severity", with_symbol(...look, event.severity)],
			["", "Volume", event.volume], ["wide", "What happened", event.text]]);
	}));
}

function show(data) {
	const handler = data.handler;
	set_text(document.getElementById("gateway"), handler ?
		"handler " + handler.version + " in " + handler.program + ", pid " + handler.pid + (data.up ? "" : " (gone)") : "");
	show_verdict(...verdict(data));
	show_volumes(data);
	show_spares(data.spares);
	const mark = (list) => list.length + ":" + (list.length ? list[list.length - 1].number + ":" + list[list.length - 1].time_ms : "");
	if (mark(events) !== mark(data.events)) {
		events = data.events;
		show_events();
	}
	document.title = (data.up && document.getElementById("verdict").className === "good" ? "" : "! ") + "iraid";
}

async function ask() {
	const stop = new AbortController(), timer = setTimeout(() => stop.abort(), LIMIT_MS);
	try {
		const answer = await fetch("api/v1/status?after=" + Math.max(0, newest_ms - OVERLAP_MS), { signal: stop.signal });
		if (!answer.ok)
			throw new Error("status " + answer.status);
		const data = await answer.json();
		answered_at = Date.now();
		show(data);
	} catch (error) {
		show_verdict("bad", ["The exporter does not answer (" + error.message + ").",
			answered_at === null ? "There is no data yet." : "The data below is from " + day_and_clock(answered_at) + "."]);
		document.title = "! iraid";
	} finally {
		clearTimeout(timer);
	}
}

/* Nobody is asked for a page that nobody sees. */
async function ask_for_ever() {
	for (;;) {
		if (document.hidden)
			await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
		await ask();
		await new Promise((due) => setTimeout(due, ASK_MS));
	}
}

document.getElementById("least").addEventListener("change", show_events);
document.getElementById("span").addEventListener("change", () => ask());
ask_for_ever();
