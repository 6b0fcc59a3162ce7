// The site's search runs in a worker, which browsers refuse to a page that was opened as a file. There this class takes the
// worker's place: its script runs in a hidden frame. It has what the theme's search uses. (The name of this file keeps the
// theme's plugin `offline` from loading another such script from another host.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.inner = new Promise((resolve) => {
        frame.onload = () => {
          const inner = frame.contentWindow;
          inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
          const script = inner.document.createElement("script");
          script.src = url;
          script.onload = () => resolve(inner);
          inner.document.head.append(script);
        };
      });
      document.documentElement.append(frame);
    }
    postMessage(data) {
      this.inner.then((inner) => inner.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
}
