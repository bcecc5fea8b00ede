// Charts, the choice of a pair, and the search. Everything comes from the JSON in this page.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("figures").textContent);
  const accent = "#1f5fa8";
  const whole = (value) => Math.round(value).toLocaleString("en");
  const bars = (lower, upper) => (lower === null ? "not known" : `${whole(lower)} to ${whole(upper)}`);
  const make = (tag, text) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const shortened = (label) => (label.length > 15 ? `${label.slice(0, 14)}…` : label);

  function singleChart(chart, width) {
    const [labels] = chart.labels;
    const rows = labels.map((label, index) => ({
      label, answer: chart.answer[index], lower: chart.lower[index], upper: chart.upper[index],
    }));
    const marks = [
      Plot.ruleX([0], { stroke: "#55616f" }),
      Plot.barX(rows, { x: "answer", y: "label", fill: accent, fillOpacity: 0.75 }),
    ];
    const known = rows.filter((row) => row.lower !== null);
    if (known.length) marks.push(Plot.ruleY(known, { x1: "lower", x2: "upper", y: "label", stroke: "#1d2733", strokeWidth: 1.5 }));
    return Plot.plot({
      width, marginLeft: 128, marginRight: 14, marginTop: 4, height: Math.min(620, 30 + 22 * rows.length),
      x: { label: "count", grid: true, ticks: 4, tickFormat: "~s" },
      y: { label: null, domain: labels, tickFormat: shortened, tickSize: 0 },
      style: { fontSize: "12px", background: "transparent" }, marks,
    });
  }

  function pairChart(chart, width) {
    const [down, across] = chart.labels;
    const cells = down.flatMap((y, row) => across.map((x, column) => ({ x, y, answer: chart.answer[row * across.length + column] })));
    return Plot.plot({
      width, marginLeft: 130, marginBottom: 70, marginTop: 6, padding: 0.04,
      height: Math.min(900, 96 + 30 * down.length),
      x: { label: chart.attributes[1], domain: across, tickFormat: shortened, tickRotate: across.length > 6 ? -35 : 0, tickSize: 0 },
      y: { label: null, domain: down, tickFormat: shortened, tickSize: 0 },
      color: { scheme: "blues", legend: true, label: "count", domain: [0, Math.max(1, ...chart.answer)] },
      style: { fontSize: "12px", background: "transparent" },
      marks: [Plot.cell(cells, { x: "x", y: "y", fill: (cell) => Math.max(0, cell.answer) })],
    });
  }

  function pairTable(chart) {
    const [down, across] = chart.labels;
    const table = make("table"), head = table.createTHead().insertRow(), body = table.createTBody();
    for (const text of [chart.attributes[0], ...across]) {
      const cell = make("th", text);
      cell.scope = "col";
      head.append(cell);
    }
    down.forEach((label, row) => {
      const line = body.insertRow(), side = make("th", label);
      side.scope = "row";
      line.append(side);
      across.forEach((_, column) => {
        const index = row * across.length + column, lower = chart.lower[index];
        const half = lower === null ? "" : ` ±${whole((chart.upper[index] - lower) / 2)}`;
        line.append(make("td", `${whole(chart.answer[index])}${half}`));
      });
    });
    return table;
  }

  // A chart is an image to a screen reader; the table beside it has the numbers.
  function shown(place, chart, name) {
    for (const part of chart.querySelectorAll("[aria-label], [aria-description]")) {
      part.removeAttribute("aria-label");
      part.removeAttribute("aria-description");
    }
    for (const image of [chart, ...chart.querySelectorAll("svg")].filter((element) => element.tagName === "svg")) {
      image.setAttribute("role", "img");
      image.setAttribute("aria-label", name);
    }
    place.replaceChildren(chart);
  }

  const singles = data.charts.filter((chart) => chart.attributes.length === 1);
  const pairs = data.charts.filter((chart) => chart.attributes.length === 2);
  for (const figure of document.querySelectorAll("figure.single")) {
    const place = figure.querySelector(".chart");
    shown(place, singleChart(singles[Number(figure.dataset.chart)], Math.max(260, Math.min(420, place.clientWidth))), `Counts of ${singles[Number(figure.dataset.chart)].attributes[0]}`);
  }

  const first = document.getElementById("first"), second = document.getElementById("second");
  function partners(name) {
    return pairs.filter((chart) => chart.attributes.includes(name)).map((chart) => chart.attributes.find((other) => other !== name));
  }
  function transposed(chart) {
    const [down, across] = chart.labels;
    const turn = (values) => across.flatMap((_, column) => down.map((_label, row) => values[row * across.length + column]));
    return {
      attributes: [chart.attributes[1], chart.attributes[0]], labels: [across, down],
      answer: turn(chart.answer), lower: turn(chart.lower), upper: turn(chart.upper),
    };
  }
  function showPair() {
    const names = [first.value, second.value];
    const stored = pairs.find((chart) => names.every((name) => chart.attributes.includes(name)));
    const chart = stored.attributes[0] === names[0] ? stored : transposed(stored);
    document.getElementById("pair-title").textContent = `${names[0]} by ${names[1]}`;
    const place = document.getElementById("pair-chart");
    shown(place, pairChart(chart, Math.max(280, Math.min(860, place.clientWidth))), `Counts of ${names[0]} by ${names[1]}`);
    document.getElementById("pair-table").replaceChildren(pairTable(chart));
  }
  function fillSecond() {
    second.replaceChildren(...partners(first.value).map((name) => make("option", name)));
    showPair();
  }
  if (pairs.length) {
    const names = [...new Set(pairs.flatMap((chart) => chart.attributes))];
    first.replaceChildren(...names.map((name) => make("option", name)));
    document.getElementById("pair-chooser").hidden = false;
    document.getElementById("pair").hidden = false;
    first.addEventListener("change", fillSecond);
    second.addEventListener("change", showPair);
    fillSecond();
  }

  const words = document.getElementById("words"), hits = document.getElementById("hits");
  const body = document.querySelector("#found tbody"), shownRows = 50;
  function search() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = data.searched.filter((row) => wanted.every((word) => row.query.toLowerCase().includes(word)));
    hits.textContent = `${found.length.toLocaleString("en")} answers${found.length > shownRows ? `; the ${shownRows} largest are shown` : ""}`;
    body.replaceChildren(...found.slice(0, shownRows).map((row) => {
      const line = make("tr"), name = make("th");
      name.scope = "row";
      name.append(make("code", row.query));
      line.append(name, make("td", whole(row.answer)), make("td", bars(row.lower, row.upper)));
      return line;
    }));
  }
  document.getElementById("search-box").hidden = false;
  words.addEventListener("input", search);
  search();
})();
