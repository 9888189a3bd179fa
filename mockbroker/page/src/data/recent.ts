/** The latest items of a sequence, at most twice `kept` of them, in the order of their arrival. */
export class Recent<T extends { id: number }> {
  readonly #kept: number;
  #items: T[] = [];

  constructor(kept: number) {
    this.#kept = kept;
  }

  get size(): number {
    return this.#items.length;
  }

  add(item: T): void {
    this.#items.push(item);
    if (this.#items.length > 2 * this.#kept) this.#items = this.#items.slice(-this.#kept);
  }

  /** Replace the item with the same id, or add the item. Returns whether it was replaced. */
  put(item: T): boolean {
    for (let at = this.#items.length - 1; at >= 0 && (this.#items[at]?.id ?? 0) >= item.id; at -= 1) {
      if (this.#items[at]?.id === item.id) {
        this.#items[at] = item;
        return true;
      }
    }
    this.add(item);
    return false;
  }

  /** Return the latest items for which `matches` is true, at most `count`, the newest first. */
  latest(count: number, matches: (item: T) => boolean = () => true): T[] {
    const found: T[] = [];
    for (let at = this.#items.length - 1; at >= 0 && found.length < count; at -= 1) {
      const item = this.#items[at];
      if (item && matches(item)) found.push(item);
    }
    return found;
  }

  clear(): void {
    this.#items = [];
  }
}
