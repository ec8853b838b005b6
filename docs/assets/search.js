// Browsers start no worker for a page that was opened from the disk. There, the theme's search runs in a hidden frame.
// The theme knows the frame by the name of this class.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.own = frame.contentWindow;
      this.own.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const loaded = (address) =>
        new Promise((resolve) => {
          const script = frame.contentDocument.createElement("script");
          script.src = address;
          script.onload = resolve;
          frame.contentDocument.body.append(script);
        });
      this.own.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => loaded(address)), Promise.resolve());
      this.ready = loaded(url);
    }

    postMessage(data) {
      this.ready.then(() => this.own.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
  window.Worker = window.IFrameWorker;
}
