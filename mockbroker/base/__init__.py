"""What everything else in the broker uses: settings, releases, effects, timers."""
