"use strict";
document.documentElement.classList.add("scripted");
for (const button of document.querySelectorAll("button[data-show]")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll("button[data-show]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    for (const pair of document.querySelectorAll(".pair")) {
      pair.hidden = button.dataset.show !== "all" && pair.dataset.change !== button.dataset.show;
    }
  });
}
for (const button of document.querySelectorAll("button[data-unfold]")) {
  button.addEventListener("click", () => {
    const open = document.documentElement.classList.toggle("unfolded");
    button.setAttribute("aria-pressed", String(open));
  });
}
for (const output of document.querySelectorAll(".observation")) {
  const gold = output.querySelector(".gold");
  if (gold) output.scrollTop = gold.offsetTop - 30;
}
