import { type ComponentChildren, Component } from "preact";

/** Return a component that is rendered again only if one of its properties is another object than before. */
export function memo<P extends object>(render: (props: P) => ComponentChildren) {
  return class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const before = this.props as Record<string, unknown>;
      return Object.entries(next).some(([key, value]) => before[key] !== value);
    }

    override render(props: P): ComponentChildren {
      return render(props);
    }
  };
}
