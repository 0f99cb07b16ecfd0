package sum

import "testing"

func TestPasses(t *testing.T) {}

func TestFails(t *testing.T) {
	t.Errorf("1 + 1 is %d", 3)
}

func TestSkipped(t *testing.T) {
	t.Skip("not now")
}

func TestParts(t *testing.T) {
	t.Run("inner", func(t *testing.T) {})
	t.Run("broken", func(t *testing.T) { t.Fatal("no luck") })
}
