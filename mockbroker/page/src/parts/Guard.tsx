import { Component, type ComponentChildren } from "preact";
import { Empty } from "./widgets.tsx";

/** Shows what it contains; if that raises an exception, only this part of the page is replaced by a message. */
export class Guard extends Component<{ children: ComponentChildren }, { problem?: string }> {
  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ problem: String(error) });
  }

  override render(): ComponentChildren {
    const { problem } = this.state;
    const { children } = this.props;
    return <div class="view">{problem ? <Empty>This view has failed: {problem}. Reload the page.</Empty> : children}</div>;
  }
}
