/** The page's elements, found by id. */

export function element<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} #${id}`);
  return found;
}

export const div = (id: string) => element(id, HTMLDivElement);
export const input = (id: string) => element(id, HTMLInputElement);
export const button = (id: string) => element(id, HTMLButtonElement);
export const paragraph = (id: string) => element(id, HTMLParagraphElement);

/** An element with text. What a model says is text, never HTML. */
export function make<K extends keyof HTMLElementTagNameMap>(tag: K, className: string, text = ""): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}
