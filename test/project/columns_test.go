package project

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestColumns: `kubectl get clusternetworking -w` shows how a change of kube-proxy goes on, on a line that fits a terminal; the message is for
// who asks with -o wide.
func TestColumns(t *testing.T) {
	text, err := os.ReadFile("../../config/crd/bases/networking.lanyard.dev_clusternetworkings.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				AdditionalPrinterColumns []struct {
					Name     string
					Priority int
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	var shown, wide []string
	for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		if c.Priority == 0 {
			shown = append(shown, c.Name)
		} else {
			wide = append(wide, c.Name)
		}
	}
	if diff := cmp.Diff([]string{"Ready", "Mode", "Phase", "IPs Used", "IPs Free", "Speakers", "Age"}, shown); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Message"}, wide); diff != "" {
		t.Errorf("columns with -o wide (-want +got):\n%s", diff)
	}
}
