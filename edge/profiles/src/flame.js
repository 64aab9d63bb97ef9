
(function () {
  var WIDTH = 1200, CHARACTER = 6.6, found = "";
  var boxes = Array.prototype.slice.call(document.querySelectorAll("#boxes g")).map(function (g) {
    return { g: g, x: +g.dataset.x, w: +g.dataset.w, level: +g.dataset.l, rect: g.querySelector("rect"),
             text: g.querySelector("text"), name: g.querySelector("title").textContent };
  });
  function label(box, width) {
    var name = box.name.slice(0, box.name.lastIndexOf(": ")), room = Math.floor((width - 6) / CHARACTER);
    if (name.length <= room) return name;
    return room < 3 ? "" : name.slice(0, room - 2) + "..";
  }
  function zoom(to) {
    boxes.forEach(function (box) {
      var inside = box.x >= to.x - 0.002 && box.x + box.w <= to.x + to.w + 0.002;
      var above = box.level < to.level && box.x <= to.x + 0.002 && box.x + box.w >= to.x + to.w - 0.002;
      var shown = above || (inside && box.level >= to.level);
      box.g.style.display = shown ? "" : "none";
      box.g.classList.toggle("around", above);
      if (!shown) return;
      var x = above ? 0 : (box.x - to.x) / to.w * WIDTH, width = above ? WIDTH : box.w / to.w * WIDTH;
      box.rect.setAttribute("x", x);
      box.rect.setAttribute("width", Math.max(width - 0.4, 0.2));
      box.text.setAttribute("x", x + 3);
      box.text.textContent = label(box, width);
    });
    document.getElementById("reset").setAttribute("visibility", to.level ? "visible" : "hidden");
  }
  function search(text) {
    var pattern, sum = 0, end = -1;
    found = text;
    try { pattern = text && new RegExp(text, "i"); } catch (_) { pattern = { test: function (name) { return name.indexOf(text) >= 0; } }; }
    boxes.forEach(function (box) {
      var hit = !!pattern && pattern.test(box.name.slice(0, box.name.lastIndexOf(": ")));
      box.g.classList.toggle("hit", hit);
      if (hit && box.x >= end - 0.002) { sum += box.w; end = box.x + box.w; }
    });
    document.getElementById("found").textContent = text ? text + ": " + (sum / WIDTH * 100).toFixed(1) + "%" : "";
  }
  boxes.forEach(function (box) { box.g.addEventListener("click", function () { zoom(box); }); });
  document.getElementById("reset").addEventListener("click", function () { zoom(boxes[0]); });
  window.addEventListener("keydown", function (event) {
    if ((event.ctrlKey || event.metaKey) && event.key === "f") {
      event.preventDefault();
      var text = window.prompt("Functions whose name matches (empty: none)", found);
      if (text !== null) search(text);
    }
  });
})();
