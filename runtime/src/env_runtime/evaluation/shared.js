// Whatever comes from a rollout is set as text: never as HTML, an attribute's name, a style or a URL but a checked image's.
const byId = (id) => document.getElementById(id);
const make = (tag, name, ...children) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
};
const LETTERS = 4000; // of a text at first
const IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+\/]+=*$/;
const plural = (count, thing) => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
const written = (reward) => reward === null ? "none" : String(+reward.toFixed(3));
const KINDS = ["system", "developer", "user", "environment", "assistant", "reasoning", "call", "output", "data"];

function showEntry({ who, name, error, parts }) {
  const known = KINDS.includes(who) ? who : "data";
  const entry = make("div", `entry ${known}${error ? " error" : ""}`);
  const title = name === undefined ? who : known === "call" ? "tool call" : `${name}${error ? ": error" : ""}`;
  entry.append(make("h3", "", title));
  if (known === "call" && name !== undefined) {
    const text = parts.join("");
    const long = text.includes("\n") || text.length > LETTERS;
    entry.append(showText(long ? `${name}(\n${text}\n)` : `${name}(${text})`));
  } else {
    entry.append(...parts.map((part) => typeof part === "number" ? showImage(part) : showText(part)));
  }
  return entry;
}

function showText(text) {
  const shown = make("pre", "", text.slice(0, LETTERS));
  if (text.length > LETTERS) {
    const more = make("button", "", `Show all ${plural(text.length, "character")}`);
    more.addEventListener("click", () => shown.replaceChildren(text));
    shown.append(" … ", more);
  }
  return shown;
}

function showImage(number) {
  const url = imageUrl(number);
  if (!IMAGE.test(url)) return showText(url);
  const image = make("img");
  image.alt = "An image that the policy saw";
  image.loading = "lazy";
  image.addEventListener("error", () => image.replaceWith(make("p", "soft", "(an image that cannot be shown)")));
  image.addEventListener("click", () => image.classList.toggle("whole"));
  image.src = url;
  return make("div", "scroll", image);
}
